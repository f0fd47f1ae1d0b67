package driverjob

import (
	"errors"
	"time"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

const (
	// firstBackoff and maxBackoff bound the delay between two attempts. The delay doubles.
	firstBackoff = time.Minute
	maxBackoff   = time.Hour
	// podDelay is how long the cache of pods may be behind the cache of Jobs.
	podDelay = 30 * time.Second
)

// Result is what a Job found out.
type Result struct {
	Download
	Flags []driverschema.Flag
}

// Decision is what to do about a driver whose flags are needed.
type Decision struct {
	// Run is the number of the attempt to start, 0 for none.
	Run int
	// Outdated are names of running Jobs that ask about another URL, checksum or image. They are deleted.
	Outdated []string
	// Result is the answer. Nil while there is none.
	Result *Result
	// Failed is the condition of the NodeDriver that becomes False, and Message the reason. Waiting is why there is no
	// result yet. All are empty if there is nothing to report.
	Failed, Message, Waiting string
	// After is the time until the next check without an event. Zero means that only events matter.
	After time.Duration
}

// Decide returns what to do for the Jobs of a NodeDriver. key is the question, checksum the NodeDriver's.
func Decide(key, checksum string, jobs []State, now time.Time) Decision {
	d := Decision{Outdated: outdated(key, jobs)}
	latest, last := latestOf(key, jobs)
	if latest == nil || latest.Attempt < last {
		d.Run, d.Waiting = last+1, asks
		return d
	}
	switch latest.Phase {
	case machinejob.PhaseSucceeded:
		if (latest.Download == "" || latest.Flags == "") && now.Before(latest.Ended.Add(podDelay)) {
			d.Waiting, d.After = asks, latest.Ended.Add(podDelay).Sub(now)
			return d
		}
		result, failed, err := read(latest, checksum)
		if err != nil {
			d.fail(latest, failed, err.Error(), now)
			return d
		}
		d.Result = result
	case machinejob.PhaseFailed:
		d.fail(latest, latest.concerns(), latest.Message, now)
	case machinejob.PhaseRunning, machinejob.PhaseAbsent:
		d.wait(latest)
	}
	return d
}

// outdated returns the running Jobs with another question.
func outdated(key string, jobs []State) (names []string) {
	for _, job := range jobs {
		if job.Key != key && job.Phase == machinejob.PhaseRunning && !job.Deleting {
			names = append(names, job.Name)
		}
	}
	return names
}

// latestOf returns the Job of the latest attempt, nil if there is none, and the latest number of deleted Jobs, whose
// names are taken.
func latestOf(key string, jobs []State) (latest *State, last int) {
	for i := range jobs {
		job := &jobs[i]
		switch {
		case job.Key != key:
		case job.Deleting:
			last = max(last, job.Attempt)
		case latest == nil || job.Attempt > latest.Attempt:
			latest = job
		}
	}
	return latest, last
}

// concerns is the condition that a failure of the Job concerns.
func (s *State) concerns() string {
	if s.Downloaded {
		return mgmtv3.NodeDriverConditionInstalled
	}
	return mgmtv3.NodeDriverConditionDownloaded
}

// wait reports a running Job. After a failure, the condition keeps its reason until there is a new one.
func (d *Decision) wait(job *State) {
	switch {
	case job.Attempt > 1 && job.Message != "":
		d.Failed, d.Message = job.concerns(), job.Message
	case job.Attempt > 1:
	case job.Message != "":
		d.Waiting = asks + "; " + job.Message
	default:
		d.Waiting = asks
	}
}

// asks is the message while a Job runs.
const asks = "a Job in Drover's namespace downloads the driver and asks it for its flags"

// fail reports a failed attempt, or starts the next one when its time has come.
func (d *Decision) fail(job *State, failed, message string, now time.Time) {
	d.Failed, d.Message = failed, message
	if due := job.Ended.Add(backoff(job.Attempt)); now.Before(due) {
		d.After = due.Sub(now)
	} else {
		d.Run = job.Attempt + 1
	}
}

func backoff(attempt int) time.Duration {
	delay := firstBackoff
	for ; attempt > 1 && delay < maxBackoff; attempt-- {
		delay *= 2
	}
	return min(delay, maxBackoff)
}

// read reads the results of a successful Job. It also returns the condition that an error concerns.
func read(job *State, checksum string) (*Result, string, error) {
	if job.Download == "" || job.Flags == "" {
		return nil, mgmtv3.NodeDriverConditionInstalled,
			errors.New("the pod of the Job is gone, and its result is unknown")
	}
	download, err := DecodeDownload(job.Download)
	if err != nil {
		return nil, mgmtv3.NodeDriverConditionDownloaded, err
	}
	if !driverschema.SameSHA256(checksum, download.SHA256) {
		return nil, mgmtv3.NodeDriverConditionDownloaded,
			errors.New(driverschema.WrongChecksum(download.SHA256, checksum))
	}
	flags, err := DecodeFlags(job.Flags)
	if err != nil {
		return nil, mgmtv3.NodeDriverConditionInstalled, err
	}
	return &Result{Download: download, Flags: flags}, "", nil
}
