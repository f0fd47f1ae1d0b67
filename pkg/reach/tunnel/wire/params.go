package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxParams limits the length of the header, far above that of a token and a CA bundle.
const maxParams = 64 << 10

// defaultPort is the port of an announced address without one.
const defaultPort = "443"

// Errors of ParseParams, with the texts of the wire (docs/wire/endpoints.md#tunnel).
var (
	ErrNoParams  = errors.New("missing node or cluster registration info")
	ErrNoAddress = errors.New("invalid input, address empty")
	ErrNoToken   = errors.New("invalid input, token empty")
	ErrNoCA      = errors.New("invalid input, caCert empty")
)

// Params are the announcement of a stock agent: the address of its API server inside the cluster, its CA certificates,
// and a credential.
type Params struct {
	// Address is HOST:PORT of the API server.
	Address string
	// Token is the credential of the agent's service account.
	Token string
	// CA are the CA certificates of the API server, as PEM.
	CA []byte
}

// String omits the secret parts.
func (p Params) String() string { return "params of " + p.Address }

// GoString omits the secret parts.
func (p Params) GoString() string { return p.String() }

// paramsJSON is the JSON of the header.
type paramsJSON struct {
	Cluster *clusterJSON `json:"cluster,omitempty"`
}

type clusterJSON struct {
	Address string `json:"address"`
	Token   string `json:"token"`
	CACert  string `json:"caCert"`
}

// ParseParams reads the value of HeaderParams: standard base64 of JSON. Errors name the problem and contain no part of
// the value.
func ParseParams(value string) (Params, error) {
	if value == "" {
		return Params{}, ErrNoParams
	}
	if len(value) > maxParams {
		return Params{}, fmt.Errorf("header %s is longer than %d bytes", HeaderParams, maxParams)
	}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return Params{}, fmt.Errorf("header %s must be standard base64", HeaderParams)
	}
	var parsed paramsJSON
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return Params{}, fmt.Errorf("header %s must be base64 of a JSON object with cluster.address, cluster.token "+
			"and cluster.caCert", HeaderParams)
	}
	if parsed.Cluster == nil {
		return Params{}, ErrNoParams
	}
	return parsed.Cluster.params()
}

func (c *clusterJSON) params() (Params, error) {
	switch {
	case c.Address == "":
		return Params{}, ErrNoAddress
	case c.Token == "":
		return Params{}, ErrNoToken
	case c.CACert == "":
		return Params{}, ErrNoCA
	}
	address, err := hostPort(c.Address)
	if err != nil {
		return Params{}, err
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Params{}, errors.New("invalid input, token must be printable ASCII without spaces")
	}
	ca, err := base64.StdEncoding.DecodeString(c.CACert)
	if err != nil {
		return Params{}, errors.New("invalid input, caCert must be base64 of PEM")
	}
	if block, _ := pem.Decode(ca); block == nil || block.Type != "CERTIFICATE" {
		return Params{}, errors.New("invalid input, caCert must be base64 of PEM with a certificate")
	}
	return Params{Address: address, Token: c.Token, CA: bytes.TrimSpace(ca)}, nil
}

// hostPort converts an announced address to one that can be dialed. Agents write HOST:PORT from their environment,
// without brackets around IPv6 addresses.
func hostPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = splitBare(address)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || !validHost(host) {
		return "", errors.New("invalid input, address must be HOST:PORT")
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)), nil
}

// splitBare splits an IPv6 address without brackets from its port. An ambiguous address has a port, because agents
// always write one.
func splitBare(address string) (host, port string) {
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		if ip, err := netip.ParseAddr(address[:i]); err == nil && ip.Is6() {
			return address[:i], address[i+1:]
		}
	}
	if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		address = address[1 : len(address)-1]
	}
	return address, defaultPort
}

func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == "" && !ip.IsUnspecified()
	}
	if host == "" || len(host) > 253 || strings.HasPrefix(host, "-") || strings.HasPrefix(host, ".") {
		return false
	}
	return strings.Trim(host, hostCharacters) == ""
}

// hostCharacters are the characters of host names.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
