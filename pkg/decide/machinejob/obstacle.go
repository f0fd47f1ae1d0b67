package machinejob

import (
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

const (
	// removalText begins the message of condition Ready while a machine is removed.
	removalText = "Removing "
	// startsAfter follows the name of a machine whose creation has not ended.
	startsAfter = " starts after the end of the Job that creates it"
)

// The message of a Cluster repeats the beginning and the end of a machine's message, at most this many bytes of each.
const (
	longestBeginning = 250
	longestEnd       = 150
)

// Obstacle is what delays the removal of a machine's host, as users of the Cluster read it.
type Obstacle struct {
	// Reason is that of the machine's condition Ready.
	Reason string
	// Message has the cause and the remedy. It is empty when the removal makes progress.
	Message string
	// Stuck is true when the removal fails until a person acts, or the cloud recovers.
	Stuck bool
}

// ObstacleOf returns the obstacle that condition Ready of a machine reports, or its copy in a Cluster API Machine. The
// kind and name are those of the machine.
func ObstacleOf(kind, name, reason, message string) Obstacle {
	if !strings.HasPrefix(message, removalText) {
		return Obstacle{} // the condition is older than the deletion
	}
	shown := excerpt(message) // the condition is without secrets
	giveUp := "set annotation " + rkev1.ForceMachineRemoveAnnotation + "=true on " + kind + " " + name
	switch reason {
	case ReasonDeleting:
		if !strings.Contains(message, ": ") && !strings.Contains(message, startsAfter) {
			return Obstacle{}
		}
		return Obstacle{Reason: reason, Message: shown}
	case ReasonPaused:
		return Obstacle{Reason: reason, Message: shown}
	case ReasonProtected:
		return Obstacle{Reason: reason, Message: shown + ". Remove the annotation to continue", Stuck: true}
	case ReasonUnconfirmed: // the message has the remedy
		return Obstacle{Reason: reason, Message: shown, Stuck: true}
	case ReasonCredential:
		return Obstacle{Reason: reason, Message: shown + ". Create the Secret again, or remove the host in the cloud " +
			"and " + giveUp, Stuck: true}
	case tenancy.ReasonAccessDenied:
		return Obstacle{Reason: reason, Message: shown + ". Permit the Secret to the Cluster, or remove the host in " +
			"the cloud and " + giveUp, Stuck: true}
	case rkev1.ReasonDeleteError:
		return Obstacle{Reason: reason, Message: shown + ". Drover tries again within an hour. If the host is gone, " +
			giveUp, Stuck: true}
	default:
		return Obstacle{}
	}
}

// excerpt makes a short line of a message. The cause is at the beginning of some drivers' messages, and at the end of
// others'. Any word may be long, such as an encoded answer of the cloud.
func excerpt(message string) string {
	line := redact.Clip(message, len(message)+1) // the whole message
	if len(line) <= longestBeginning+longestEnd {
		return line
	}
	beginning, end := line[:longestBeginning], line[len(line)-longestEnd:]
	if _, words, found := strings.Cut(end, " "); found {
		end = words
	}
	return strings.ToValidUTF8(beginning, "") + " … " + strings.ToValidUTF8(end, "")
}
