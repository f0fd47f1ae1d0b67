package plan

// NodePlan is the value of the data key "plan" of a plan secret, as compact JSON.
type NodePlan struct {
	// Files are written, or removed, in this order before any instruction runs, and only when the plan is (re)applied.
	// A file dropped from a plan is not removed from the node.
	Files []File `json:"files,omitempty"`

	// Instructions run once per plan content, in order. The first one that fails stops the rest.
	Instructions []OneTimeInstruction `json:"instructions,omitempty"`

	// PeriodicInstructions run periodically. Their failures never make a plan fail.
	PeriodicInstructions []PeriodicInstruction `json:"periodicInstructions,omitempty"`

	// Error is the reason why no plan could be created. No known agent reads it.
	Error string `json:"error,omitempty"`

	// Probes are HTTP checks by name. The agent runs them after each pass, about every five seconds.
	Probes map[string]Probe `json:"probes,omitempty"`
}

// FileActionDelete is the value of File.Action that removes the path.
const FileActionDelete = "delete"

// File is a file or directory on the node.
type File struct {
	// Content is the standard base64 encoding of the file's bytes.
	Content string `json:"content,omitempty"`

	// Path is absolute.
	Path string `json:"path,omitempty"`

	// Permissions are octal text such as "0600". Empty means 0600 for a file and 0755 for a directory.
	Permissions string `json:"permissions,omitempty"`

	// Directory makes Path a directory. Then Content is ignored.
	Directory bool `json:"directory,omitempty"`

	// UID owns the file. 0, which is also the default, is root; -1 keeps the owner.
	UID int `json:"uid,omitempty"`

	// GID is the file's group, with the same special values as UID.
	GID int `json:"gid,omitempty"`

	// Action is FileActionDelete or empty, which means write.
	Action string `json:"action,omitempty"`

	// Dynamic excludes the content from the restart stamp: a change reaches the node without a restart. Read by servers
	// only.
	Dynamic bool `json:"dynamic,omitempty"`

	// Minor allows delivery of a changed file without waiting for concurrency limits or drains. Read by servers only.
	Minor bool `json:"minor,omitempty"`
}

// CommonInstruction contains the common fields of one-time and periodic instructions.
type CommonInstruction struct {
	// Name is the key under which output is stored.
	Name string `json:"name,omitempty"`

	// Image is unpacked into the scratch directory that becomes the working directory. Empty leaves that directory
	// empty.
	Image string `json:"image,omitempty"`

	// Env contains K=V pairs that are added to the agent's own environment.
	Env []string `json:"env,omitempty"`

	// Args are the arguments of Command.
	Args []string `json:"args,omitempty"`

	// Command is looked up in the agent's own PATH. Empty means run.sh in the scratch directory.
	Command string `json:"command,omitempty"`

	// Script is declared by newer tools as an inline script. No released agent runs it: do not use it in a plan.
	Script string `json:"script,omitempty"`
}

// OneTimeInstruction runs once per plan content.
type OneTimeInstruction struct {
	CommonInstruction `json:",inline"`

	// SaveOutput keeps the output under Name in the data key "applied-output" (or "failed-output"). It needs a Name.
	SaveOutput bool `json:"saveOutput,omitempty"`
}

// DefaultPeriodSeconds is the period of a periodic instruction without a period, in seconds.
const DefaultPeriodSeconds = 600

// PeriodicInstruction runs whenever its period has passed since its last success. Agents skip an instruction without a
// Name.
type PeriodicInstruction struct {
	CommonInstruction `json:",inline"`

	// PeriodSeconds is the time between two successes, in seconds. 0 means DefaultPeriodSeconds.
	PeriodSeconds int `json:"periodSeconds,omitempty"`

	// SaveStderrOutput also saves standard error. Standard output is always saved.
	SaveStderrOutput bool `json:"saveStderrOutput,omitempty"`
}

// Defaults of the thresholds of a probe, in consecutive results.
const (
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
)

// Probe is one HTTP check of a service on the node.
type Probe struct {
	// The agent fills an empty Name from the key of the map.
	Name string `json:"name,omitempty"`

	// InitialDelaySeconds is the delay of the first probe after the plan was applied, in seconds.
	InitialDelaySeconds int `json:"initialDelaySeconds,omitempty"`

	// TimeoutSeconds limits one request, in seconds. Always set it: older agents wait forever if it is 0.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`

	// SuccessThreshold is the number of successes in a row that make the probe healthy. 0 means 1.
	SuccessThreshold int `json:"successThreshold,omitempty"`

	// FailureThreshold is the number of failures in a row that make the probe unhealthy. 0 means 3.
	FailureThreshold int `json:"failureThreshold,omitempty"`

	// HTTPGetAction is the request. It is always present in the JSON, also when empty.
	HTTPGetAction HTTPGetAction `json:"httpGet"`
}

// HTTPGetAction is the request of a probe. The three certificate fields are paths on the node that are read at each
// probe.
type HTTPGetAction struct {
	// URL gets a GET request. A final status of 200 to 299 is a success.
	URL string `json:"url,omitempty"`

	// Insecure turns off the verification of the server's certificate.
	Insecure bool `json:"insecure,omitempty"`

	// ClientCert is the path of a PEM client certificate on the node.
	ClientCert string `json:"clientCert,omitempty"`

	// ClientKey is the path of the PEM key of ClientCert on the node.
	ClientKey string `json:"clientKey,omitempty"`

	// CACert is the path of PEM authorities on the node that are trusted in addition to the system's.
	CACert string `json:"caCert,omitempty"`
}

// ProbeStatus is one value of the map in the data key "probe-statuses".
type ProbeStatus struct {
	// Healthy is true if the last threshold that was reached is the success threshold.
	Healthy bool `json:"healthy,omitempty"`

	// SuccessCount counts successes in a row, up to the threshold.
	SuccessCount int `json:"successCount,omitempty"`

	// FailureCount counts failures in a row, up to the threshold.
	FailureCount int `json:"failureCount,omitempty"`
}

// PeriodicInstructionOutput is one value of the map in the data key "applied-periodic-output". Every key is always
// present.
type PeriodicInstructionOutput struct {
	// Name of the instruction.
	Name string `json:"name"`

	// Stdout is the standard output of the last run.
	Stdout []byte `json:"stdout"`

	// Stderr is the standard error of the last run, if the instruction saves it.
	Stderr []byte `json:"stderr"`

	// ExitCode is the exit code of the last run; -1 if the command could not start.
	ExitCode int `json:"exitCode"`

	// LastSuccessfulRunTime has the layout of time.UnixDate, or is empty.
	LastSuccessfulRunTime string `json:"lastSuccessfulRunTime"`

	// Failures counts the failures since the last success.
	Failures int `json:"failures"`

	// LastFailedRunTime has the layout of time.UnixDate, or is empty.
	LastFailedRunTime string `json:"lastFailedRunTime"`
}
