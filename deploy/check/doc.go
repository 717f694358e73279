// Package check holds the tests of what is deployed: the manifests as kustomize builds them, the image definitions, the binary that
// goes into them, and the systemd unit. It is a module of its own, because kustomize and the types of Kubernetes are nothing
// that the product needs. It contains no code. Nothing is asked of a cluster, a registry or a container engine.
package check
