package planner

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

const (
	// stepsVariable sets how many steps the random models take together.
	stepsVariable = "DROVER_TEST_STEPS"
	// seedVariable sets the seed of the random models: a number, or "random" for a new one every time. The same seed
	// makes the same worlds.
	seedVariable = "DROVER_TEST_SEED"
	// usualSeed is the default seed, so that a test has the same result for everyone with the same code.
	usualSeed = 1
)

const (
	// usualSteps is the default number of steps of the models. racedSteps is the one with the race detector: decisions
	// run in one goroutine, and the same tests also run without it.
	usualSteps = 10_000
	racedSteps = 1_000
	// batch is how many worlds one seed covers. racedBatch is the same with the race detector.
	batch, racedBatch = "25", "5"
)

// models holds the settings of the random models in this run, and what they have done.
var models struct {
	steps, taken int
	seed         uint64
	// chosen is true when a flag of rapid is set, such as the seed of a failed world. Then exactly those worlds run.
	chosen bool
}

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) {
		models.chosen = models.chosen || f.Name == "rapid.seed" || f.Name == "rapid.checks" ||
			f.Name == "rapid.failfile"
	})
	models.steps = usualSteps
	if crashpoints.Raced {
		models.steps = racedSteps
	}
	models.seed = usualSeed
	if err := readModels(); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	code := m.Run()
	if models.taken > 0 {
		fmt.Printf("models: %d steps, %s=%d makes the same worlds again\n", models.taken, seedVariable, models.seed)
	}
	os.Exit(code)
}

func readModels() error {
	if text := os.Getenv(stepsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			return fmt.Errorf("%s must be a number of steps, not %q", stepsVariable, text)
		}
		models.steps = n
	}
	if text := os.Getenv(seedVariable); text == "random" {
		models.seed = rand.Uint64N(1_000_000) + 1
	} else if text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("%s must be a number above 0 or 'random', not %q", seedVariable, text)
		}
		models.seed = n
	}
	if models.chosen {
		return nil
	}
	if crashpoints.Raced {
		return flag.Set("rapid.checks", racedBatch)
	}
	return flag.Set("rapid.checks", batch)
}

// walk counts the steps of a model.
type walk struct{ steps int }

// repeat takes random steps.
func (w *walk) repeat(rt *rapid.T, actions map[string]func(*rapid.T)) {
	counted := make(map[string]func(*rapid.T), len(actions))
	for name, action := range actions {
		if counted[name] = action; name == "" {
			continue
		}
		counted[name] = func(rt *rapid.T) {
			w.steps++
			action(rt)
		}
	}
	rt.Repeat(counted)
}

// explore runs random worlds until a model has taken its share, in percent, of the steps of all models. A failure
// prints the seed with which the same world runs again.
func explore(t *testing.T, share int, world func(*rapid.T, *walk)) {
	t.Helper()
	w := &walk{}
	defer func() { models.taken += w.steps }()
	if models.chosen {
		rapid.Check(t, func(rt *rapid.T) { world(rt, w) })
		return
	}
	hash := fnv.New32a()
	hash.Write([]byte(t.Name()))
	seed := models.seed<<32 + uint64(hash.Sum32())
	for w.steps*100 < models.steps*share {
		setSeed(t, seed)
		seed += 1 << 48
		rapid.Check(t, func(rt *rapid.T) { world(rt, w) })
	}
	setSeed(t, 0)
}

func setSeed(t *testing.T, seed uint64) {
	t.Helper()
	if err := flag.Set("rapid.seed", strconv.FormatUint(seed, 10)); err != nil {
		t.Fatal(err)
	}
}
