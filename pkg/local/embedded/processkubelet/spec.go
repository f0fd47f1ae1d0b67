package processkubelet

// containerSpec is everything that the processes around a container need. The kubelet writes it to disk before it
// starts the shim.
type containerSpec struct {
	// Program and Args are the process. Env is its whole environment. Dir is its working directory, created if missing.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	// Home is created if missing and belongs to the user.
	Home string `json:"home"`
	// UID, GID and Groups are those of the process.
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
	// Hostname is the content of /etc/hostname.
	Hostname string `json:"hostname"`
	// Network is the path of the network namespace. If empty, the container uses the kubelet's.
	Network string `json:"network,omitempty"`
	// Mounts are mounted in order on top of the root file system.
	Mounts []mountSpec `json:"mounts"`
	// LogFile receives standard output and standard error.
	LogFile string `json:"logFile"`
	// RootDir is an empty directory for the mount of the root file system, which is visible only in the container's
	// mount namespace.
	RootDir string `json:"rootDir"`
	// ImageDir has the files of the container's image. If empty, the root file system has the machine's programs.
	ImageDir string `json:"imageDir,omitempty"`
	// ReadOnlyRoot lets the container write only to its volumes.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
}

// mountSpec binds Source, a file or directory of this machine, at Target inside the container.
type mountSpec struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Recursive also binds the mounts below Source.
	Recursive bool `json:"recursive,omitempty"`
}

// exitRecord is how a container ended.
type exitRecord struct {
	ExitCode int `json:"exitCode"`
	// Signal is the number of the signal that ended the container, or 0.
	Signal int `json:"signal,omitempty"`
	// Reason is set when the container did not run. The constants are in status.go.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// StartedAt and FinishedAt are Unix times in nanoseconds.
	StartedAt  int64 `json:"startedAt"`
	FinishedAt int64 `json:"finishedAt"`
}

// startRecord records the process of a started container.
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
