// Package vcenter is a vCenter without hypervisors: VMware's own simulator, with a template, logins that can change and
// virtual machines that get an address when a test says so. The unchanged driver vmwarevsphere works with it.
package vcenter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// The simulator's inventory, as a machine config names it.
const (
	Template  = "DC0_C0_RP0_VM0"
	Datastore = "LocalDS_0"
)

// own is the login of the test itself.
const own = "tester"

// VCenter is a running simulator.
type VCenter struct {
	model  *simulator.Model
	server *simulator.Server
	client *govmomi.Client
	finder *find.Finder

	mu       sync.Mutex
	password string
	refused  int
}

// Start runs a simulator. The users of this password can log in.
func Start(ctx context.Context, password string) (*VCenter, error) {
	v := &VCenter{model: simulator.VPX(), password: password}
	v.model.Host, v.model.Machine = 0, 1
	if err := v.model.Create(); err != nil {
		return nil, fmt.Errorf("make the inventory: %w", err)
	}
	v.model.Service.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	v.model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(own, own)}
	simulator.Map.SessionManager().ValidLogin = v.valid
	v.server = v.model.Service.NewServer()
	var err error
	if v.client, err = govmomi.NewClient(ctx, v.server.URL, true); err != nil {
		v.Close()
		return nil, fmt.Errorf("log in: %w", err)
	}
	v.finder = find.NewFinder(v.client.Client)
	datacenter, err := v.finder.DefaultDatacenter(ctx)
	if err != nil {
		v.Close()
		return nil, fmt.Errorf("find the data center: %w", err)
	}
	v.finder.SetDatacenter(datacenter)
	return v, nil
}

// Close stops the simulator and removes its files.
func (v *VCenter) Close() {
	v.server.Close()
	v.model.Remove()
}

func (v *VCenter) valid(login *types.Login) bool {
	if login.UserName == own {
		return login.Password == own
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	ok := login.Password == v.password
	if !ok {
		v.refused++
	}
	return ok
}

// SetPassword replaces the password of all users.
func (v *VCenter) SetPassword(password string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.password = password
}

// Refused returns how many logins had a wrong password.
func (v *VCenter) Refused() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused
}

// Serve forwards the connections of a listener to the simulator, until the listener is closed.
func (v *VCenter) Serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			to, err := (&net.Dialer{}).Dial("tcp", v.server.URL.Host)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, conn)
				_ = to.Close()
			}()
			_, _ = io.Copy(conn, to)
		}()
	}
}

// Machine is a virtual machine.
type Machine struct {
	Name    string
	Running bool
	// Disks are the images in its drives for optical disks.
	Disks []string
}

// Machines returns all virtual machines except the template, by name.
func (v *VCenter) Machines(ctx context.Context) ([]Machine, error) {
	list, err := v.finder.VirtualMachineList(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("list virtual machines: %w", err)
	}
	var out []Machine
	for _, vm := range list {
		if vm.Name() == Template {
			continue
		}
		var properties mo.VirtualMachine
		err := vm.Properties(ctx, vm.Reference(), []string{"runtime.powerState", "config.hardware.device"}, &properties)
		if err != nil {
			return nil, fmt.Errorf("read virtual machine %s: %w", vm.Name(), err)
		}
		m := Machine{Name: vm.Name(), Running: properties.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn}
		if properties.Config != nil {
			for _, device := range properties.Config.Hardware.Device {
				backing, ok := device.GetVirtualDevice().Backing.(*types.VirtualCdromIsoBackingInfo)
				if ok && backing.FileName != "" {
					m.Disks = append(m.Disks, backing.FileName)
				}
			}
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Exists reports whether a file is in a datastore. The path is like "[LocalDS_0] vm/user-data.iso".
func (v *VCenter) Exists(ctx context.Context, path string) (bool, error) {
	var parsed object.DatastorePath
	if !parsed.FromString(path) {
		return false, fmt.Errorf("%q is no path in a datastore", path)
	}
	datastore, err := v.finder.Datastore(ctx, parsed.Datastore)
	if err != nil {
		return false, fmt.Errorf("find the datastore: %w", err)
	}
	_, err = datastore.Stat(ctx, parsed.Path)
	if missing := (object.DatastoreNoSuchFileError{}); errors.As(err, &missing) {
		return false, nil
	}
	if missing := (object.DatastoreNoSuchDirectoryError{}); errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

// GiveAddress gives a running virtual machine an address, as its guest tools report it. No request of the API can.
func (v *VCenter) GiveAddress(ctx context.Context, name, address string) error {
	found, err := v.finder.VirtualMachine(ctx, name)
	if err != nil {
		return fmt.Errorf("find virtual machine %s: %w", name, err)
	}
	vm, ok := simulator.Map.Get(found.Reference()).(*simulator.VirtualMachine)
	if !ok {
		return fmt.Errorf("%s is no virtual machine", name)
	}
	simulator.Map.WithLock(simulator.SpoofContext(), vm, func() {
		cards := slices.Clone(vm.Guest.Net)
		for i := range cards {
			cards[i].IpAddress = []string{address}
			addresses := []types.NetIpConfigInfoIpAddress{{IpAddress: address}}
			cards[i].IpConfig = &types.NetIpConfigInfo{IpAddress: addresses}
		}
		simulator.Map.Update(vm, []types.PropertyChange{{Name: "guest.net", Val: cards}})
	})
	return nil
}

// Destroy turns off a virtual machine and deletes it, as an administrator does by hand.
func (v *VCenter) Destroy(ctx context.Context, name string) error {
	if err := v.change(ctx, name, func(vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOff(ctx)
	}); err != nil {
		return err
	}
	return v.change(ctx, name, func(vm *object.VirtualMachine) (*object.Task, error) { return vm.Destroy(ctx) })
}

func (v *VCenter) change(ctx context.Context, name string,
	do func(*object.VirtualMachine) (*object.Task, error)) error {
	vm, err := v.finder.VirtualMachine(ctx, name)
	if err != nil {
		return fmt.Errorf("find virtual machine %s: %w", name, err)
	}
	task, err := do(vm)
	if err == nil {
		err = task.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("change virtual machine %s: %w", name, err)
	}
	return nil
}
