package ec2

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/drover-io/drover/tests/testbed/lab"
)

// The one network and image of the account.
const (
	VPC    = "vpc-0a0a0a0a0a0a0a0a0"
	Subnet = "subnet-0b0b0b0b0b0b0b0b0"
	Zone   = "eu-central-1a"
	Image  = "ami-0c0c0c0c0c0c0c0c0"

	region     = "eu-central-1"
	account    = "000000000000"
	rootDevice = "/dev/xvda"
)

// Machines creates and deletes the machines behind instances. A *lab.Lab does.
type Machines interface {
	CreateAnnounced(ctx context.Context, name, authorizedKey, tag string, announce func(lab.Machine)) (lab.Machine,
		error)
	Delete(ctx context.Context, name string) error
}

// Cloud is one account. Its methods are safe for concurrent use.
type Cloud struct {
	machines  Machines
	accessKey string

	// launches counts the machines that boot.
	launches sync.WaitGroup

	mu        sync.Mutex
	instances map[string]*Instance
	keyPairs  map[string]string
	groups    map[string]*securityGroup
	tokens    map[string]bool
	refusals  []*Refusal
	calls     []Call
}

// New returns an account without instances. Requests need the access key.
func New(machines Machines, accessKey string) *Cloud {
	return &Cloud{
		machines: machines, accessKey: accessKey, instances: map[string]*Instance{}, keyPairs: map[string]string{},
		groups: map[string]*securityGroup{}, tokens: map[string]bool{},
	}
}

// Refusal makes the next matching requests fail.
type Refusal struct {
	// Action is the action of the requests, such as RunInstances. Empty means any action.
	Action string
	// Times is the number of requests that fail.
	Times int
	// Status is the HTTP status of the answer.
	Status int
	// Code and Message are EC2's error.
	Code, Message string
}

// Throttle refuses the next requests with an action because the account sends too many.
func Throttle(action string, times int) Refusal {
	return Refusal{Action: action, Times: times, Status: 503, Code: "RequestLimitExceeded",
		Message: "Request limit exceeded."}
}

// OverQuota refuses the next instances because the quota of the account is in use.
func OverQuota(times int) Refusal {
	return Refusal{Action: "RunInstances", Times: times, Status: 400, Code: "VcpuLimitExceeded",
		Message: "You have requested more vCPU capacity than your current vCPU limit of 5 allows for the instance " +
			"bucket that the specified instance type belongs to. Please visit " +
			"http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."}
}

// Refuse adds a refusal.
func (c *Cloud) Refuse(r Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals = append(c.refusals, &r)
}

// refused uses up a matching refusal. The caller holds the lock.
func (c *Cloud) refused(action string) error {
	for _, r := range c.refusals {
		if r.Times > 0 && (r.Action == "" || r.Action == action) {
			r.Times--
			return &failure{r.Status, r.Code, r.Message}
		}
	}
	return nil
}

// Call is one answered request.
type Call struct {
	Action string
	// Code is EC2's error code, empty after a success.
	Code string
}

// Calls returns how often requests with an action ended with an error code, or with "" for successes.
func (c *Cloud) Calls(action, code string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, call := range c.calls {
		if call == (Call{action, code}) {
			count++
		}
	}
	return count
}

// Instances returns the instances that are not terminated.
func (c *Cloud) Instances() []Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Instance
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if one := c.instances[id]; one.State != stateTerminated {
			found = append(found, *one)
		}
	}
	return found
}

// KeyPairs returns the names of the key pairs.
func (c *Cloud) KeyPairs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.keyPairs))
}

// SecurityGroups returns the names of the security groups.
func (c *Cloud) SecurityGroups() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, group := range c.groups {
		names = append(names, group.Name)
	}
	slices.Sort(names)
	return names
}

// Vanish makes an instance disappear without a trace, as if its hardware failed and EC2 forgot it long ago.
func (c *Cloud) Vanish(ctx context.Context, id string) error {
	c.mu.Lock()
	delete(c.instances, id)
	c.mu.Unlock()
	return c.machines.Delete(ctx, id)
}

// Wait waits until no machine boots.
func (c *Cloud) Wait() { c.launches.Wait() }

// failure is an error as EC2 answers it.
type failure struct {
	status        int
	code, message string
}

// Error returns the code and the message.
func (f *failure) Error() string { return f.code + ": " + f.message }

func refuse(code, message string) error { return &failure{400, code, message} }

// codeOf returns the error code of an answer.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return "InternalError"
}

// newID returns a random identifier with the prefix of its kind.
func newID(prefix string) string {
	random := make([]byte, 9)
	_, _ = rand.Read(random)
	return prefix + "-" + hex.EncodeToString(random)[:17]
}
