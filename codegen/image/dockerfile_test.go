package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestParseStage_AsAnEngineReadsIt(t *testing.T) {
	const dockerfile = `
FROM golang AS programs
RUN make
FROM scratch AS other
FROM scratch AS one
ARG VERSION=dev
ARG REVISION
LABEL version="${VERSION}" \
      revision=$REVISION
COPY --from=programs /src/dist/one/ /
ENV A=1 B="two words"
COPY --from=programs --chown=7:8 /src/dist/own/ /own/
USER 5:6
WORKDIR /home/one
ENTRYPOINT ["/one", "$VERSION"]
`
	got, err := ParseStage(strings.NewReader(dockerfile), "one", map[string]string{"REVISION": "abc", "A": "unused"})
	if err != nil {
		t.Fatal(err)
	}
	want := &Stage{
		Config: v1.Config{
			Labels: map[string]string{"version": "dev", "revision": "abc"}, Env: []string{"A=1", "B=two words"},
			User: "5:6", WorkingDir: "/home/one", Entrypoint: []string{"/one", "$VERSION"},
		},
		Steps: []Step{
			{Source: "dist/one", Destination: ""},
			{Source: "dist/own", Destination: "own", UID: 7, GID: 8},
			{Destination: "home/one", UID: 5, GID: 6},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stage (-want +got):\n%s", diff)
	}
}

func TestParseStage_RefusesWhatNeedsAnEngine(t *testing.T) {
	tests := map[string]struct{ stage, want string }{
		"a base image":                   {"FROM debian AS one", "from scratch"},
		"a command":                      {"FROM scratch AS one\nRUN make", "RUN needs an engine"},
		"a volume":                       {"FROM scratch AS one\nVOLUME /data", "VOLUME needs an engine"},
		"files of the build's context":   {"FROM scratch AS one\nCOPY a/ /", "from a stage that builds"},
		"files from outside of /src":     {"FROM scratch AS one\nCOPY --from=x /etc/ /etc/", "below /src/"},
		"a shell":                        {"FROM scratch AS one\nENTRYPOINT /one", "no shell"},
		"a user by name":                 {"FROM scratch AS one\nUSER one:one", "want numbers"},
		"a user without group":           {"FROM scratch AS one\nUSER 1000", "want UID:GID"},
		"a folder that depends":          {"FROM scratch AS one\nWORKDIR home", "begins with /"},
		"an argument without a value":    {"FROM scratch AS one\nLABEL a=$VERSION", "$VERSION is not set"},
		"another stage":                  {"FROM scratch AS two", "no stage one"},
		"what is no Dockerfile":          {"one", "parse Dockerfile"},
		"modes that the tree would lose": {"FROM scratch AS one\nCOPY --from=x --chmod=700 /src/a/ /", "want folders"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseStage(strings.NewReader(test.stage), "one", nil); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
