package pullsecret_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/decide/pullsecret"
)

func TestIn(t *testing.T) {
	for name, test := range map[string]struct {
		registry, image string
		want            bool
	}{
		"in it":                         {"r.example.com", "r.example.com/drover-io/drover:v1", true},
		"in it, with a slash":           {"r.example.com/", "r.example.com/drover-io/drover:v1", true},
		"below its path":                {"r.example.com/a", "r.example.com/a/drover:v1", true},
		"beside its path":               {"r.example.com/a", "r.example.com/ab/drover:v1", false},
		"in one whose name begins so":   {"r.example.com", "r.example.com.evil.org/drover:v1", false},
		"in another":                    {"r.example.com", "quay.io/drover:v1", false},
		"on Docker Hub, without a name": {"r.example.com", "drover-io/drover:v1", false},
		"of no registry":                {"", "drover-io/drover:v1", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pullsecret.In(test.registry, test.image); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestLists(t *testing.T) {
	const image = "r.example.com:5000/drover-io/drover:v1"
	for name, test := range map[string]struct {
		content, image string
		want           bool
	}{
		"its registry":                   {`{"auths":{"r.example.com:5000":{"auth":"eA=="}}}`, image, true},
		"its registry, as Docker has it": {`{"auths":{"https://r.example.com:5000/v2/":{}}}`, image, true},
		"its path":                       {`{"auths":{"r.example.com:5000/drover-io":{}}}`, image, true},
		"another path":                   {`{"auths":{"r.example.com:5000/drover":{}}}`, image, false},
		"another port":                   {`{"auths":{"r.example.com":{}}}`, image, false},
		"one of several":                 {`{"auths":{"quay.io":{},"r.example.com:5000":{}}}`, image, true},
		"another registry":               {`{"auths":{"quay.io":{}}}`, image, false},
		"Docker Hub, which has no name":  {`{"auths":{"https://index.docker.io/v1/":{}}}`, "rancher/machine:v1", true},
		"Docker Hub, by its name":        {`{"auths":{"docker.io":{}}}`, "docker.io/rancher/machine:v1", true},
		"an image without a user":        {`{"auths":{"docker.io":{}}}`, "busybox", true},
		"nothing":                        {`{"auths":{}}`, image, false},
		"what is no JSON":                {`x`, image, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pullsecret.Lists([]byte(test.content), test.image); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
