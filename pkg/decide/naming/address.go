package naming

import "net/url"

// ServerURLForm says what IsServerURL wants, after what is none.
const ServerURLForm = "is not an address that machines can reach; use https://HOST or https://HOST:PORT"

// IsServerURL reports that machines can be told to reach a server at an address: paths are the server's own.
func IsServerURL(address string) bool {
	server, err := url.Parse(address)
	return err == nil && server.Scheme == "https" && server.Host != "" && server.Path == ""
}
