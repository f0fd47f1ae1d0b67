package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/operate/diagnose"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/status"
)

const (
	// drawInterval is how often a terminal is drawn at most. Many rows may change at once.
	drawInterval = 100 * time.Millisecond
	// ageInterval is how often a terminal is drawn without a change, because ages grow.
	ageInterval = time.Second
	// diagnoseInterval is how often a cluster is diagnosed at most. A diagnosis needs many requests.
	diagnoseInterval = 10 * time.Second
)

// statusWatch is a running drover status --watch.
type statusWatch struct {
	*statusOptions
	name   string
	out    io.Writer
	follow *inspect.Follower
	// shown is nil if the output is no terminal.
	shown   *terminal
	screen  status.Screen
	changes status.Changes
	// report is the last diagnosis, and reports gets the next one. said is what was printed about it.
	report    *diagnose.Report
	reports   chan *diagnose.Report
	diagnosed time.Time
	running   bool
	said      string
	problem   string
	// goal ends the watch. It is nil for a watch without end. failed is since when the cluster has failed.
	goal   *status.Goal
	failed time.Time
}

// failedPatience is how long a cluster may be Failed before a wait ends. Drover repeats what failed.
const failedPatience = time.Minute

// follow shows changes until the context ends or the cluster is gone.
func (o *statusOptions) follow(cmd *cobra.Command, name string) error {
	return o.followTo(cmd.Context(), cmd.OutOrStdout(), name, nil)
}

// followTo is follow until a goal, which may be nil. If the context ends before the goal, it returns the context's
// error.
func (o *statusOptions) followTo(ctx context.Context, out io.Writer, name string, goal *status.Goal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := o.statuses(name)
	if err != nil {
		return err
	}
	w := &statusWatch{statusOptions: o, name: name, out: out, follow: s.Follow(ctx), shown: o.terminal(out),
		screen: status.Screen{Out: out}, reports: make(chan *diagnose.Report, 1), goal: goal}
	return w.run(ctx)
}

func (w *statusWatch) run(ctx context.Context) error {
	ages := time.NewTicker(ageInterval)
	defer ages.Stop()
	var resized <-chan os.Signal
	if w.shown != nil {
		changes, stop := w.shown.resized()
		defer stop()
		resized = changes
	}
	for {
		select {
		case <-ctx.Done():
			if w.goal != nil {
				return ctx.Err()
			}
			return nil
		case <-w.follow.Changed():
		case w.report = <-w.reports:
			w.running = false
		case <-resized:
		case <-ages.C:
		}
		if ended, err := w.show(ctx); ended || err != nil {
			return err
		}
	}
}

// show shows the present rows. ended is true when there is nothing more to watch.
func (w *statusWatch) show(ctx context.Context) (ended bool, err error) {
	view, err := w.follow.View()
	if err != nil {
		return w.unseen(err)
	}
	if !view.Listed && view.Problem == "" {
		return false, nil
	}
	if err := w.update(ctx, &view); err != nil {
		return false, err
	}
	if view.Gone {
		return true, w.lost()
	}
	if ended, err := w.judge(&view); ended || err != nil {
		return ended, err
	}
	if w.shown != nil {
		pause(ctx, drawInterval)
	}
	return false, nil
}

// unseen handles a cluster that cannot be followed. A deleted cluster may be gone before the first look.
func (w *statusWatch) unseen(err error) (ended bool, _ error) {
	if w.goal != nil && w.goal.Gone && apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// lost returns an error if the end of the cluster is not the goal.
func (w *statusWatch) lost() error {
	if w.goal == nil || w.goal.Gone {
		return nil
	}
	return fmt.Errorf("cluster %s/%s is gone", w.inNamespace(), w.name)
}

// judge reports whether the goal is reached. It returns an error if a user must act.
func (w *statusWatch) judge(view *inspect.View) (ended bool, err error) {
	if w.goal == nil || !view.Listed || len(view.Clusters) == 0 {
		return false, nil
	}
	cluster := &view.Clusters[0]
	obstacle, mayPass := w.goal.Obstacle(cluster)
	switch {
	case obstacle == "":
		w.failed = time.Time{}
	case w.failed.IsZero():
		w.failed = w.now()
	}
	if obstacle != "" && (!mayPass || w.now().Sub(w.failed) >= failedPatience) {
		return true, errors.New(printable(obstacle))
	}
	return w.goal.Reached(cluster, view.Machines, view.MachinesUnread == ""), nil
}

// pause returns early if the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// update shows a view.
func (w *statusWatch) update(ctx context.Context, view *inspect.View) error {
	if w.name != "" && len(view.Clusters) > 0 {
		w.diagnose(ctx, &view.Clusters[0])
	}
	if w.shown != nil {
		return w.draw(view)
	}
	return w.tell(view)
}

// diagnose starts a diagnosis of a cluster that does not work.
func (w *statusWatch) diagnose(ctx context.Context, cluster *status.Cluster) {
	if cluster.State == status.Ready {
		w.report, w.diagnosed = nil, time.Time{}
		return
	}
	if w.running || w.now().Sub(w.diagnosed) < diagnoseInterval {
		return
	}
	w.running, w.diagnosed = true, w.now()
	row := *cluster
	go func() { w.reports <- w.diagnosis(ctx, &row) }()
}

// draw draws the terminal.
func (w *statusWatch) draw(view *inspect.View) error {
	width, height := w.shown.size()
	form := w.form(w.shown)
	form.Width = max(width-1, 1)
	var lines []string
	switch {
	case view.Gone:
		lines = []string{"Cluster " + w.inNamespace() + "/" + w.name + " is gone"}
	case w.name != "" && len(view.Clusters) > 0:
		tree := w.tree(&view.Rows, w.report)
		lines = tree.Lines(form)
	default:
		fleet := w.fleet(&view.Rows)
		if lines = fleet.Lines(form); len(fleet.Items) == 0 && view.Listed {
			lines = append(lines, form.Fit(w.none()))
		}
	}
	if view.Problem != "" {
		lines = append(lines, form.Fit("Note: "+view.Problem))
	}
	return w.screen.Draw(lines, width, height)
}

// tell prints a line for each change.
func (w *statusWatch) tell(view *inspect.View) error {
	var machines []status.Machine
	if w.name != "" {
		machines = view.Machines
	}
	var lines []string
	stamp := w.now().UTC().Format(time.RFC3339) + " "
	if view.Problem != w.problem {
		if w.problem = view.Problem; view.Problem != "" {
			lines = append(lines, stamp+printable(view.Problem))
		}
	}
	if view.Listed {
		lines = append(lines, w.changes.Next(view.Clusters, machines, w.now())...)
	}
	if broken := w.broken(); broken != w.said {
		if w.said = broken; broken != "" {
			lines = append(lines, stamp+printable(broken))
		}
	}
	for _, line := range lines {
		if _, err := io.WriteString(w.out, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// broken describes the first broken link.
func (w *statusWatch) broken() string {
	if w.report == nil {
		return ""
	}
	found := w.report.Broken()
	if found == nil {
		return ""
	}
	text := "Broken: " + found.Sentence()
	if len(found.Do) > 0 {
		text += "; do: " + found.Do[0]
	}
	return text
}
