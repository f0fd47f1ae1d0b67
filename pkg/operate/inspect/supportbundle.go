package inspect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"

	"github.com/drover-io/drover/pkg/operate/supportbundle"
	"github.com/drover-io/drover/pkg/operate/table"
)

// SupportBundle returns the files of a support bundle for clusters. What the user may not read is listed in one of
// them.
func SupportBundle(ctx context.Context, opts Options, clusters []supportbundle.Cluster) ([]supportbundle.File, error) {
	in := supportbundle.Input{Clusters: clusters, Texts: map[string]string{}}
	in.Texts["versions.txt"] = fmt.Sprintf("drover %s (%s/%s, %s)\n", opts.Version, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	byNamespace := map[string][]string{}
	for _, cluster := range clusters {
		byNamespace[cluster.Namespace] = append(byNamespace[cluster.Namespace], cluster.Name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if err := collect(ctx, opts, namespace, byNamespace[namespace], &in); err != nil {
			return nil, err
		}
	}
	return supportbundle.Files(in)
}

// collect adds the clusters of one namespace.
func collect(ctx context.Context, opts Options, namespace string, names []string, in *supportbundle.Input) error {
	for _, name := range names {
		if err := say(ctx, opts, namespace, name, in); err != nil {
			return err
		}
	}
	r, err := New(ctx, opts, namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	r.Collect(ctx, names, in)
	return nil
}

// say adds the output of diagnose and explain for a cluster. If these fail, the bundle is still written.
func say(ctx context.Context, opts Options, namespace, name string, in *supportbundle.Input) error {
	r, err := New(ctx, opts, namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	for what, look := range map[string]func() (value any, text func(w io.Writer), err error){
		"diagnosis": func() (any, func(w io.Writer), error) {
			report, err := r.Diagnose(ctx, name)
			return report, func(w io.Writer) { report.Print(w, true) }, err
		},
		"explanation": func() (any, func(w io.Writer), error) {
			explanation, err := r.Explain(name)
			return explanation, explanation.Print, err
		},
	} {
		value, text, err := look()
		if err != nil {
			in.Unread = append(in.Unread, what+" of "+namespace+"/"+name+": "+err.Error())
		} else if err := said(in, what+"/"+namespace+"-"+name, value, text); err != nil {
			return err
		}
	}
	return nil
}

// said adds a value as text and as JSON.
func said(in *supportbundle.Input, path string, value any, text func(w io.Writer)) error {
	var shown, encoded bytes.Buffer
	if err := table.Print(&shown, text); err != nil {
		return err
	}
	if err := WriteJSON(&encoded, value); err != nil {
		return err
	}
	in.Texts[path+".txt"], in.Texts[path+".json"] = shown.String(), encoded.String()
	return nil
}
