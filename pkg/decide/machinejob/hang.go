package machinejob

import (
	"fmt"
	"time"
)

// slow is how long a driver runs before Drover says how to end it. Most clouds need less.
const slow = 15 * time.Minute

// hang is what users see about a driver that runs for long, "" for others.
func (s Snapshot) hang(job JobState) string {
	if !job.Started || job.Began.IsZero() || job.Deleting || s.Now.Sub(job.Began) < slow {
		return ""
	}
	return fmt.Sprintf("the driver has been running for more than %d minutes; check that the cloud answers. "+
		"Kubernetes ends the Job at its deadline. To end it now, run: kubectl patch job -n %s "+
		`%s --type=merge -p '{"spec":{"activeDeadlineSeconds":1}}'`, int(slow.Minutes()), s.Machine.Namespace, job.Name)
}

// remind checks a running Job again when it becomes slow, because no event comes then.
func (s Snapshot) remind(d Decision, job JobState) Decision {
	if left := job.Began.Add(slow).Sub(s.Now); !job.Began.IsZero() && left > 0 && (d.After == 0 || left < d.After) {
		d.After = left
	}
	return d
}
