package ec2

import (
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// MetadataAddress is the address of the metadata service on every instance of EC2.
var MetadataAddress = netip.MustParseAddr("169.254.169.254")

// metadataVersions are the versions of the service that a Cloud has. They have the same content.
var metadataVersions = []string{"latest", "2009-04-04", "2016-09-02", "2021-03-23"}

// Metadata serves the metadata service to instances, which it distinguishes by their addresses. An instance may send a
// token that it requested before (version 2 of the service). It has to if its launch said so.
func (c *Cloud) Metadata() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			http.Error(w, "Bad Request", http.StatusBadRequest)
			return
		}
		token := newID("token")
		c.mu.Lock()
		c.tokens[token] = true
		c.mu.Unlock()
		_, _ = io.WriteString(w, token)
	})
	mux.HandleFunc("GET /{version}/{path...}", func(w http.ResponseWriter, r *http.Request) {
		status, text := c.metadata(r)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	return mux
}

// metadata answers a request of an instance.
func (c *Cloud) metadata(r *http.Request) (status int, text string) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.Contains(metadataVersions, r.PathValue("version")) {
		return http.StatusNotFound, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.instanceAt(from.Addr().Unmap())
	if one == nil {
		return http.StatusNotFound, ""
	}
	token := r.Header.Get("X-Aws-Ec2-Metadata-Token")
	if token == "" && one.needsTokens || token != "" && !c.tokens[token] {
		return http.StatusUnauthorized, ""
	}
	return find(one.metadata(), r.PathValue("path"))
}

// instanceAt returns the instance with an address. The caller holds the lock.
func (c *Cloud) instanceAt(address netip.Addr) *Instance {
	for _, one := range c.instances {
		if one.Address == address && one.State != stateTerminated {
			return one
		}
	}
	return nil
}

// metadata returns the texts that an instance can read, by path.
func (i *Instance) metadata() map[string]string {
	name := "ip-" + strings.ReplaceAll(i.Address.String(), ".", "-")
	files := map[string]string{
		"meta-data/ami-id":                      Image,
		"meta-data/hostname":                    name,
		"meta-data/instance-id":                 i.ID,
		"meta-data/instance-type":               i.Type,
		"meta-data/local-hostname":              name,
		"meta-data/local-ipv4":                  i.Address.String(),
		"meta-data/placement/availability-zone": Zone,
		"meta-data/public-ipv4":                 i.Address.String(),
		"meta-data/public-keys/0/openssh-key":   i.publicKey,
	}
	if len(i.UserData) > 0 {
		files["user-data"] = string(i.UserData)
	}
	return files
}

// find returns a text, or the names in a folder. Names of folders end with a slash, and a key has its name, as in EC2.
func find(files map[string]string, path string) (status int, text string) {
	if text, ok := files[path]; ok {
		return http.StatusOK, text
	}
	folder := strings.TrimSuffix(path, "/") + "/"
	names := map[string]bool{}
	for file := range files {
		rest, inside := strings.CutPrefix(file, folder)
		if !inside {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		switch {
		case folder == "meta-data/public-keys/":
			name += "=key"
		case deeper:
			name += "/"
		}
		names[name] = true
	}
	if len(names) == 0 {
		return http.StatusNotFound, ""
	}
	return http.StatusOK, strings.Join(slices.Sorted(maps.Keys(names)), "\n")
}
