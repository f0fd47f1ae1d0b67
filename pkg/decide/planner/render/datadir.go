package render

// FieldDataDir is the field in which the data directory of the distribution belongs.
const FieldDataDir = "spec.rkeConfig.dataDirectories.k8sDistro"

// DataDirField is the field that names the data directory of a machine's distribution: the one in which it belongs, or a configuration key that is
// passed through. Empty when none does.
func DataDirField(in Input) string {
	m := newMachinePlan(in)
	if m.spec.DataDirectories.K8sDistro != "" {
		return FieldDataDir
	}
	if m.layerUser() != nil {
		return ""
	}
	return m.origin[keyDataDir]
}
