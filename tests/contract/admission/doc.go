// Package admission runs Drover's command line with the admission webhooks and policies that it installs, and makes
// users' mistakes with clusters. The API server rejects invalid objects and names the field. Protected objects stay.
// While Drover does not run, requests of other programs do not wait for it.
package admission
