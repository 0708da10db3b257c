// Package oscar owns OSCAR's types as they are on the wire: the service, its
// federation and members, the Functions Definition Language (FDL), and the rules
// that they must keep.
//
// It parses (ParseService, ParseFDL), validates (Validate), completes
// (WithDefaults) and separates secrets (SplitSecrets, MergePatch). All problems of
// an input are reported at once as Violations: path, rule, value, and a message
// that names the way out.
//
// Fields that this project does not interpret are kept and written back as they
// came, at every level, so that a newer OSCAR's fields pass through an older
// control plane. It is a leaf: it knows nothing of etcd, HTTP or clusters, and no
// input makes it panic.
package oscar
