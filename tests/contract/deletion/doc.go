// Package deletion deletes Clusters while something else happens or is broken.
package deletion
