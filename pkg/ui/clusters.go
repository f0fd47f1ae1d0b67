package ui

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/kubeconfig"
	"github.com/drover-io/drover/pkg/operate/supportbundle"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// callTime limits one request to the API server.
	callTime = 30 * time.Second
	// maxLog is the size in bytes of the largest log. The end of a longer one is missing.
	maxLog = 8 << 20
	// logLines is how many last lines of a machine's log are shown.
	logLines = 10_000
)

// reader returns a Reader of package inspect that reads as the caller.
func (u *ui) reader(r *http.Request, c *caller) (*inspect.Reader, error) {
	return inspect.New(r.Context(), u.forReader(c), r.PathValue("namespace"))
}

func (u *ui) forReader(c *caller) inspect.Options {
	config := rest.CopyConfig(c.config)
	config.Timeout = callTime
	return inspect.Options{Config: config, Version: u.opts.Version, Releases: u.opts.Releases}
}

func (u *ui) getDiagnose(w http.ResponseWriter, r *http.Request, c *caller) error {
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	report, err := reader.Diagnose(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, report)
	return nil
}

func (u *ui) getExplain(w http.ResponseWriter, r *http.Request, c *caller) error {
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	explanation, err := reader.Explain(r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, explanation)
	return nil
}

func (u *ui) getClusterLog(w http.ResponseWriter, r *http.Request, c *caller) error {
	return u.log(w, r, c, inspect.ClusterPrefix+r.PathValue("name"), -1)
}

func (u *ui) getMachineLog(w http.ResponseWriter, r *http.Request, c *caller) error {
	return u.log(w, r, c, inspect.MachinePrefix+r.PathValue("name"), logLines)
}

// log writes a log as drover logs does. An error after the first line can only cut the log.
func (u *ui) log(w http.ResponseWriter, r *http.Request, c *caller, target string, lines int64) error {
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	out := &lateWriter{w: w, mediaType: textPlain, left: maxLog}
	err = reader.Logs(r.Context(), target, inspect.LogOptions{Tail: lines}, out)
	if err != nil && !out.began {
		return asMissing(err)
	}
	if !out.began {
		out.begin()
	}
	return nil
}

// asMissing converts the sentence why there is no log.
func asMissing(err error) error {
	if isStatement(err) {
		return notFound(sentence(err))
	}
	return err
}

// lateWriter sends the head of the answer with its first byte, so that an error before it becomes the answer.
type lateWriter struct {
	w         http.ResponseWriter
	mediaType string
	left      int
	began     bool
}

func (l *lateWriter) begin() {
	l.began = true
	l.w.Header().Set("Content-Type", l.mediaType)
	l.w.Header().Set("Cache-Control", "no-store")
	l.w.WriteHeader(http.StatusOK)
}

// Write implements io.Writer.
func (l *lateWriter) Write(data []byte) (int, error) {
	if !l.began {
		l.begin()
	}
	if l.left < len(data) {
		return 0, io.ErrShortWrite
	}
	l.left -= len(data)
	return l.w.Write(data)
}

func (u *ui) getSupportBundle(w http.ResponseWriter, r *http.Request, c *caller) error {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	_, err = reader.Cluster(name)
	reader.Close()
	if err != nil {
		return err
	}
	files, err := inspect.SupportBundle(r.Context(), u.forReader(c),
		[]supportbundle.Cluster{{Namespace: namespace, Name: name}})
	if err != nil {
		return err
	}
	attach(w, gzipTar, "drover-support-bundle-"+namespace+"-"+name+".tar.gz")
	return supportbundle.Pack(w, files, time.Now())
}

// attach sets the headers of a file to save.
func attach(w http.ResponseWriter, mediaType, name string) {
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	header.Set("Cache-Control", "no-store")
}

// getKubeconfig writes a kubeconfig as drover kubeconfig does. It holds no credential.
func (u *ui) getKubeconfig(w http.ResponseWriter, r *http.Request, c *caller) error {
	all, err := clients.New(c.config, clients.Options{Version: u.opts.Version, WithoutDynamic: true})
	if err != nil {
		return err
	}
	defer all.Stop()
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	cluster, err := all.Provisioning.Cluster().Get(namespace, name, metav1.GetOptions{})
	if err != nil {
		_, err = inspect.UnreadCluster(err, namespace, name)
		return err
	}
	if cluster.Status.ClusterName == "" {
		return notFound(fmt.Sprintf("the Cluster %s/%s has no management cluster yet; try again when its "+
			"status.clusterName is set", namespace, name))
	}
	settings, err := kubeconfig.Published(r.Context(), all.Kubernetes, cluster)
	if err != nil {
		return asMissing(err)
	}
	data, err := u.kubeconfig(cluster, proxy.Proxied{ID: cluster.Status.ClusterName, Server: settings.ServerURL,
		Authority: []byte(settings.CACerts)})
	if err != nil {
		return err
	}
	attach(w, textYAML, name+".kubeconfig")
	_, err = w.Write(data)
	return err
}

func (u *ui) kubeconfig(cluster *provv1.Cluster, way proxy.Proxied) ([]byte, error) {
	file, context := u.opts.Kubeconfig, u.opts.Context
	written := kubeconfig.Through(way, cluster.Name, kubeconfig.Plugin(file, context))
	kubeconfig.AddNamed(written, cluster.Name, cluster,
		kubeconfig.Plugin(file, context, kubeconfig.TokenOf(cluster)))
	return clientcmd.Write(*written)
}
