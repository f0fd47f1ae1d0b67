// Package driverjob describes the Job that asks a node driver for its flags, reads its result, and decides when to run
// it. A driver is third-party code. Therefore it runs in a pod of its own, and not in the server's.
//
// The pod has no token of a service account and satisfies the Pod Security Standard "restricted". It has two
// containers of Drover's image, one after the other:
//
//   - download fetches the driver, verifies its checksum and unpacks it. It may know a proxy's password. It runs no
//     third-party code, so its result, the driver's name and SHA-256, is trusted.
//   - flags runs the driver once and reports its flags. The driver could write this result itself. DecodeFlags bounds
//     and checks it.
//
// The results are the termination messages of the containers. They come with the status of the pod, so Drover needs no
// permission to read logs. The kubelet keeps 4096 bytes of a message. EncodeFlags shortens descriptions of flags that
// do not fit.
//
// All functions are pure. The name of a Job follows from the NodeDriver's UID, URL and checksum, the image and the
// number of the attempt. So a server that crashed finds its Job again, and a changed NodeDriver gets another one.
package driverjob
