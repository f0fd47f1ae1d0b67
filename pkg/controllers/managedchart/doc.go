// Package managedchart makes a Fleet Bundle of each ManagedChart. Package decide/fleet has its content
// (docs/wire/managed-charts.md).
//
// The files of the chart come from the repository that the ManagedChart names (package chartrepo). Downloads run in the
// background, a few at a time and at most two of one namespace, so a slow repository blocks no worker. A failed one is
// repeated with a growing delay. A version is downloaded once: an annotation on the Bundle says where its files are
// from. A range of versions is checked once an hour.
//
// As long as there is no chart for a changed spec, the Bundle stays as it is. Other fields, such as values, need no
// download.
//
// Drover changes only a Bundle whose controller is the ManagedChart. The garbage collector deletes the Bundle with it.
// Without Fleet, and while Rancher runs in the same management cluster, Drover makes no Bundles.
//
// # Wake-ups
//
// Object: ManagedChart. Woken by: Secret (with its credential), CustomResourceDefinition (of Bundles). The Bundle of a
// ManagedChart, and the end of a download, wake it too.
package managedchart
