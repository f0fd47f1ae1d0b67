package naming

import "net/url"

// ServerURLForm is the requirement of IsServerURL, to follow the rejected value in a message.
const ServerURLForm = "is not an address that machines can reach; use https://HOST or https://HOST:PORT"

// IsServerURL reports whether machines can reach a server at an address. It must not have a path, because paths belong
// to the server.
func IsServerURL(address string) bool {
	server, err := url.Parse(address)
	return err == nil && server.Scheme == "https" && server.Host != "" && server.Path == ""
}
