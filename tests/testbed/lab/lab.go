package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Errors that callers of the API distinguish.
var (
	ErrNotFound = errors.New("machine not found")
	ErrInvalid  = errors.New("invalid request")
	ErrFault    = errors.New("injected fault")
)

// propagated contains a folder for each machine of systemd-nspawn.
const propagated = "/run/systemd/nspawn/propagate"

// validName matches names that are valid as host name, network namespace and folder name.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Config configures a lab.
type Config struct {
	// Name distinguishes labs on one host; the network namespace is drover-<Name>. At most 20 lower-case letters,
	// digits and dashes.
	Name string
	// Dir is the folder for the lab's state: machines, their disks, the record and the log.
	Dir string
	// Image is the folder of the machine image (EnsureImage).
	Image string
	// Images, if set, is a host folder that every machine sees read-only as /var/lib/rancher/agent/images. The node
	// agent searches it for installer images before it asks a registry.
	Images string
	// Kubelets, if set, prepares machines for real kubelets. It stays the same for all runs of a lab.
	Kubelets *Kubelets
}

// Lab is an open lab. Its methods are safe for concurrent use.
type Lab struct {
	name      string
	namespace string
	dir       string
	image     string
	binds     []string
	kubelets  *Kubelets
	record    *record

	// mu serializes all changes of machines. Booting one takes less than a second.
	mu       sync.Mutex
	machines map[string]*Machine
	faults   []Fault
	occurred []Fault
	held     *Hold
}

// Open creates the lab's network if it does not exist, and adopts the machines of an earlier run. It boots machines
// that should run but do not.
func Open(ctx context.Context, config Config) (*Lab, error) {
	if len(config.Name) > 20 || !validName.MatchString(config.Name) {
		return nil, fmt.Errorf("%w: lab name %q: use at most 20 lower-case letters, digits and dashes", ErrInvalid,
			config.Name)
	}
	l := newLab(config)
	if err := os.MkdirAll(filepath.Join(l.dir, "machines"), 0o700); err != nil {
		return nil, fmt.Errorf("make lab folder: %w", err)
	}
	if err := l.makeNetwork(ctx); err != nil {
		return nil, fmt.Errorf("make lab network: %w", err)
	}
	names, err := l.storedMachines()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m, err := l.load(name)
		if errors.Is(err, fs.ErrNotExist) {
			// The lab was killed after it created the folder and before it wrote the record, so no caller knows this
			// machine.
			if err := os.RemoveAll(l.folder(name)); err != nil {
				return nil, fmt.Errorf("remove unfinished machine %s: %w", name, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		l.machines[name] = m
		if m.Power == On && !m.Running {
			if err := l.boot(ctx, m); err != nil {
				// Open fails, so only this call can stop the machines that run already.
				return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
			}
		}
	}
	return l, nil
}

func newLab(config Config) *Lab {
	l := &Lab{
		name: config.Name, namespace: "drover-" + config.Name, dir: config.Dir, image: config.Image,
		kubelets: config.Kubelets,
		record:   &record{path: filepath.Join(config.Dir, "record.jsonl")},
		machines: map[string]*Machine{},
	}
	if config.Images != "" {
		l.binds = append(l.binds, config.Images+":/var/lib/rancher/agent/images")
	}
	return l
}

func (l *Lab) storedMachines() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, "machines"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// Namespace returns the network namespace for everything that manages machines.
func (l *Lab) Namespace() string { return l.namespace }

// MachineNamespace returns the network namespace of one machine.
func (l *Lab) MachineNamespace(machine string) string { return l.machineNamespace(machine) }

// Create creates and boots a machine. Root can log in with the private key of authorizedKey. If a machine with that
// name exists, Create returns it and boots it if it should run. A caller that lost the answer can therefore retry. The
// tag may be empty.
func (l *Lab) Create(ctx context.Context, name, authorizedKey, tag string) (Machine, error) {
	return l.CreateAnnounced(ctx, name, authorizedKey, tag, func(Machine) {})
}

// CreateAnnounced is Create for a caller that needs the address of a new machine before its first boot. announce gets
// the machine then, and must not call the lab.
func (l *Lab) CreateAnnounced(ctx context.Context, name, authorizedKey, tag string, announce func(Machine)) (Machine,
	error,
) {
	if !validName.MatchString(name) {
		return Machine{}, fmt.Errorf("%w: machine name %q: use lower-case letters, digits and dashes, at most 63",
			ErrInvalid, name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, ok := l.machines[name]; ok {
		if m.Power == On && !m.process.Alive() {
			if err := l.boot(ctx, m); err != nil {
				return Machine{}, err
			}
		}
		return *m, nil
	}
	if err := l.takeFault("create", name); err != nil {
		return Machine{}, err
	}
	address, err := l.freeAddress()
	if err != nil {
		return Machine{}, err
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	m := &Machine{Name: name, ID: hex.EncodeToString(id), Address: address, Power: On, Tag: tag}
	if err := l.prepareDisk(ctx, m, authorizedKey); err != nil {
		return Machine{}, err
	}
	if err := l.log("create", m); err != nil {
		return Machine{}, err
	}
	if err := l.save(m); err != nil {
		return Machine{}, err
	}
	l.machines[name] = m
	announce(*m)
	if err := l.boot(ctx, m); err != nil {
		return Machine{}, err
	}
	return *m, nil
}

func (l *Lab) freeAddress() (netip.Addr, error) {
	used := map[netip.Addr]bool{}
	for _, m := range l.machines {
		used[m.Address] = true
	}
	octets := Gateway.As4()
	for host := firstHost; host <= lastHost; host++ {
		octets[3] = byte(host)
		if address := netip.AddrFrom4(octets); !used[address] {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: all addresses of the lab are in use", ErrInvalid)
}

// Delete ends a machine at once and removes its disk. A missing machine is no error.
func (l *Lab) Delete(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.machines[name]
	if !ok {
		return nil
	}
	if err := l.takeFault("delete", name); err != nil {
		return err
	}
	m.Power = Off
	if err := l.halt(ctx, m, true); err != nil {
		return err
	}
	if err := l.detach(ctx, name); err != nil {
		return err
	}
	if err := l.removeCgroups(ctx, name); err != nil {
		return err
	}
	if err := l.log("delete", m); err != nil {
		return err
	}
	delete(l.machines, name)
	// systemd-nspawn removes its own folder at its end, unless it was killed.
	if err := errors.Join(os.RemoveAll(l.folder(name)), os.RemoveAll(filepath.Join(propagated, name))); err != nil {
		return fmt.Errorf("remove files of %s: %w", name, err)
	}
	return nil
}

// Get returns one machine, or ErrNotFound.
func (l *Lab) Get(name string) (Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.machines[name]
	if !ok {
		return Machine{}, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	m.Running = m.process.Alive()
	return *m, nil
}

// List returns all machines by name.
func (l *Lab) List() []Machine {
	l.mu.Lock()
	defer l.mu.Unlock()
	machines := make([]Machine, 0, len(l.machines))
	for _, m := range l.machines {
		m.Running = m.process.Alive()
		machines = append(machines, *m)
	}
	slices.SortFunc(machines, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	return machines
}

// SetPower turns a machine on or off. atOnce cuts the power instead of shutting down. The disk is kept.
func (l *Lab) SetPower(ctx context.Context, name string, power Power, atOnce bool) error {
	return l.change(name, func(m *Machine) error {
		if power == On {
			if m.process.Alive() {
				return nil
			}
			return l.boot(ctx, m)
		}
		m.Power = Off
		return l.halt(ctx, m, atOnce)
	})
}

// Partition disconnects a machine from the network, or connects it again.
func (l *Lab) Partition(ctx context.Context, name string, cut bool) error {
	return l.change(name, func(m *Machine) error {
		m.Partitioned = cut
		if err := l.save(m); err != nil {
			return err
		}
		return l.setPartition(ctx, m)
	})
}

func (l *Lab) change(name string, do func(*Machine) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.machines[name]
	if !ok {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return do(m)
}

// Stop shuts down all machines and keeps their disks. The next Open boots those that were on.
func (l *Lab) Stop(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := make([]error, 0, len(l.machines))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, m := range l.machines {
		wg.Go(func() {
			err := l.halt(ctx, m, false)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Destroy removes everything that a lab ever created, even if its process was killed: machines, control groups,
// namespaces and its folder.
func Destroy(ctx context.Context, config Config) error {
	l := newLab(config)
	entries, err := l.record.open()
	if err != nil {
		return err
	}
	strays, err := marked(l.mark(""))
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(strays)+len(entries))
	for _, stray := range strays {
		errs = append(errs, pullPlug(ctx, stray))
	}
	for _, kind := range []string{kindCgroup, kindNamespace} {
		for _, e := range entries {
			if e.Kind == kind {
				errs = append(errs, l.destroyEntry(ctx, e))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove lab %s: %w", config.Name, err)
	}
	if err := os.RemoveAll(config.Dir); err != nil {
		return fmt.Errorf("remove lab folder: %w", err)
	}
	return nil
}

func (l *Lab) destroyEntry(ctx context.Context, e entry) error {
	switch e.Kind {
	case kindNamespace:
		if _, err := os.Stat(namespacePath(e.Name)); err == nil {
			return ip(ctx, "netns", "del", e.Name)
		}
	case kindCgroup:
		return l.dropCgroup(ctx, e.Name)
	}
	return nil
}

// Event is one line of the lab's log, which proves how often each machine was created.
type Event struct {
	Time    time.Time `json:"time"`
	Action  string    `json:"action"` // create or delete
	Machine string    `json:"machine"`
	ID      string    `json:"id"`
}

func (l *Lab) logPath() string { return filepath.Join(l.dir, "events.jsonl") }

func (l *Lab) log(action string, m *Machine) error {
	line, err := json.Marshal(Event{Time: time.Now().UTC(), Action: action, Machine: m.Name, ID: m.ID})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	file, err := os.OpenFile(l.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

// Events returns the log of creates and deletes, oldest first.
func (l *Lab) Events() ([]Event, error) {
	file, err := os.Open(l.logPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	var events []Event
	for decoder := json.NewDecoder(file); decoder.More(); {
		var e Event
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("decode log: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}
