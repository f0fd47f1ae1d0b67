package supportbundle

import (
	"fmt"
	"strings"
	"testing"
)

func TestWalk_HidesSecretsInUnusualPlaces(t *testing.T) {
	t.Parallel()
	const secret = "vErY-sEcReT-4711"
	for name, node := range map[string]map[string]any{
		"a map as the value of a variable": {"name": "login", "value": map[string]any{"password": secret}},
		"a list as the value of a variable": {
			"name": "login", "value": []any{map[string]any{"token": secret}},
		},
		"a script with a flag after the secret": {"args": []any{"login " + secret + "\n--token=other"}},
		"a script with a variable after the secret": {
			"command": []any{"curl --unix " + secret + " x\nexport A_TOKEN=other\nbar"},
		},
	} {
		if got := fmt.Sprint(newHider(nil).walk("object", node)); strings.Contains(got, secret) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestDriver_HidesAConfigWithATextAsSpec(t *testing.T) {
	t.Parallel()
	const secret = "vErY-sEcReT-4711"
	config := map[string]any{"spec": "text", "password": secret, "other": secret + "\nof several lines"}
	newHider(nil).driver("PodConfig", config)
	if got := fmt.Sprint(config); strings.Contains(got, secret) {
		t.Errorf("%s", got)
	}
}
