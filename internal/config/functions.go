package config

import "github.com/dynamodb-bigtable/replicator/transform"

// TemplateFunction is a function of the templates of row keys and columns.
type TemplateFunction struct {
	Name    string `json:"name"`
	Example string `json:"example"`
	Meaning string `json:"meaning"`
	Order   string `json:"order"` // kept, reversed or lost
}

// TemplateFunctions returns all functions.
func TemplateFunctions() []TemplateFunction {
	var list []TemplateFunction
	for _, f := range transform.Functions() {
		list = append(list, TemplateFunction{f.Name, f.Example, f.Meaning, f.Order.String()})
	}
	return list
}
