package processkubelet

// containerSpec is everything the processes around a container need to know. The kubelet writes it to disk before it
// starts the shim, so that nothing has to be asked again.
type containerSpec struct {
	// Program and Args are the process; Env its whole environment; Dir its working directory, made if missing.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	// Home is made if missing and belongs to the user.
	Home string `json:"home"`
	// UID, GID and Groups are the process's.
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
	// Hostname is what /etc/hostname says.
	Hostname string `json:"hostname"`
	// Network is the path of the network namespace. Empty, it is that of the kubelet.
	Network string `json:"network,omitempty"`
	// Mounts are made in order, on top of the root file system.
	Mounts []mountSpec `json:"mounts"`
	// LogFile takes standard output and standard error.
	LogFile string `json:"logFile"`
	// RootDir is an empty directory on which the root file system is mounted, in the container's mount namespace only.
	RootDir string `json:"rootDir"`
	// ImageDir has the files of the container's image. Empty, the root file system is of the machine's programs.
	ImageDir string `json:"imageDir,omitempty"`
	// ReadOnlyRoot lets the container write only to its volumes.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
}

// mountSpec binds Source, a file or directory of this machine, at Target inside the container.
type mountSpec struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Recursive also binds what is mounted below Source.
	Recursive bool `json:"recursive,omitempty"`
}

// exitRecord is how a container ended.
type exitRecord struct {
	ExitCode int `json:"exitCode"`
	// Signal is the number of the signal that ended it, 0 for none.
	Signal int `json:"signal,omitempty"`
	// Reason is set when the container did not run: see the constants of status.go.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// StartedAt and FinishedAt are Unix times in nanoseconds.
	StartedAt  int64 `json:"startedAt"`
	FinishedAt int64 `json:"finishedAt"`
}

// startRecord says that the container was started, and as which process.
type startRecord struct {
	PID       int   `json:"pid"`
	StartedAt int64 `json:"startedAt"`
}

// Files of an attempt's directory.
const (
	specFile        = "spec.json"
	lockFile        = "lock"
	claimFile       = "claimed"
	startFile       = "started.json"
	exitFile        = "exit.json"
	shimLogFile     = "shim.log"
	terminationFile = "termination-log"
	rootDir         = "root"
)
