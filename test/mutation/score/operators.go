package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// walk visits the code of a function, and plants all bugs that fit at each place.
func (f *file) walk(body *ast.BlockStmt) {
	parents := []ast.Node{f.function}
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.ArrayType, *ast.StructType, *ast.InterfaceType, *ast.FuncType, *ast.MapType:
			return false
		case *ast.GenDecl:
			if n.Tok == token.CONST || n.Tok == token.TYPE {
				return false
			}
		case ast.Expr:
			if f.info.Types[n].Value != nil || f.info.Types[n].IsType() {
				f.number(n, parents[len(parents)-1])
				return false
			}
		}
		f.plant(n, parents)
		parents = append(parents, n)
		return true
	})
}

func (f *file) plant(n ast.Node, parents []ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
		for _, e := range n.List {
			f.condition("case", e, true, false)
		}
	case *ast.IfStmt:
		f.condition("if", n.Cond, true, false)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition("for", n.Cond, false)
		}
	case *ast.ReturnStmt:
		f.returned(n, f.signature(parents))
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.CompositeLit:
		f.composite(n)
	}
}

// condition plants a condition that always has the given value.
func (f *file) condition(where string, e ast.Expr, said ...bool) {
	if !f.isBool(e) || f.info.Types[e].Value != nil {
		return
	}
	for _, v := range said {
		f.around(e, fmt.Sprintf("byrule.Is(%d, %t, ", f.add(e, where+" condition", fmt.Sprint(v)), v), ")")
	}
}

// returned plants swallowed errors and negated conditions.
func (f *file) returned(n *ast.ReturnStmt, s *types.Signature) {
	if len(n.Results) != s.Results().Len() {
		return
	}
	for i, e := range n.Results {
		switch {
		case types.Identical(s.Results().At(i).Type(), types.Universe.Lookup("error").Type()) && !f.info.Types[e].IsNil():
			f.around(e, fmt.Sprintf("byrule.Err(%d, ", f.add(e, "error swallowed", "nil")), ")")
		case f.isBool(e):
			f.around(e, fmt.Sprintf("byrule.Not(%d, ", f.add(e, "result negated", "!("+f.text(e)+")")), ")")
		}
	}
}

// signature returns the signature of the innermost function.
func (f *file) signature(parents []ast.Node) *types.Signature {
	for i := len(parents) - 1; i > 0; i-- {
		if literal, ok := parents[i].(*ast.FuncLit); ok {
			return f.info.TypeOf(literal).(*types.Signature)
		}
	}
	return f.info.Defs[f.function.Name].Type().(*types.Signature)
}

// statements plants statements that are left out.
func (f *file) statements(list []ast.Stmt) {
	for _, s := range list {
		if f.removable(s) {
			f.around(s, fmt.Sprintf("if byrule.Kept(%d) { ", f.add(s, "statement left out", "")), " }")
		}
	}
}

func (f *file) removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt, *ast.DeferStmt:
		return true
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && f.text(call.Fun) != "panic"
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && f.text(s.Lhs[0]) != "_"
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.IfStmt:
		return s.Init != nil && s.Else == nil
	}
	return false
}

// binary plants operands that do not count, and moved bounds.
func (f *file) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.LAND, token.LOR:
		for _, operand := range []ast.Expr{e.X, e.Y} {
			f.condition("operand of "+e.Op.String(), operand, e.Op == token.LAND)
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		// a > b is rewritten as the negation of a <= b, whose bound moves the other way.
		name, not := "Less", ""
		if e.Op == token.LEQ || e.Op == token.GTR {
			name = "LessEqual"
		}
		if e.Op == token.GTR || e.Op == token.GEQ {
			not = "!"
		}
		moved := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[e.Op]
		f.around(e, fmt.Sprintf("%sbyrule.%s(%d, ", not, name, f.add(e, "bound moved", f.text(e.X)+" "+moved+" "+f.text(e.Y))), ")")
		f.edits = append(f.edits, edit{f.offset(e.X.End()), f.offset(e.Y.Pos()), true, ", "})
	}
}

// composite plants fields that are not set.
func (f *file) composite(e *ast.CompositeLit) {
	s, ok := f.info.TypeOf(e).Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, value := range e.Elts {
		field := s.Field(min(i, s.NumFields()-1))
		if pair, ok := value.(*ast.KeyValueExpr); ok {
			field, value = f.info.Uses[pair.Key.(*ast.Ident)].(*types.Var), pair.Value
		}
		tv := f.info.Types[value]
		inner, ok := value.(*ast.CompositeLit)
		if ok && inner.Type == nil || tv.IsNil() || tv.Value != nil || !types.Identical(field.Type(), tv.Type) {
			continue
		}
		f.around(value, fmt.Sprintf("byrule.Zero(%d, ", f.add(value, "field left out", field.Name()+" is not set")), ")")
	}
}

// number plants constants that are one too large.
func (f *file) number(e ast.Expr, parent ast.Node) {
	tv := f.info.Types[e]
	if pair, ok := parent.(*ast.KeyValueExpr); ok && pair.Key == e || tv.Value == nil {
		return
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	if !ok || basic.Info()&types.IsNumeric == 0 || tv.Value.Kind() != constant.Int {
		return
	}
	if t := f.typeOf(e); t != "" && t != "time.Duration" { // one nanosecond more is not a bug
		f.around(e, fmt.Sprintf("byrule.Plus[%s](%d, ", t, f.add(e, "number changed", f.text(e)+" + 1")), ")")
	}
}

func (f *file) isBool(e ast.Expr) bool {
	t := f.info.TypeOf(e)
	return t != nil && types.Identical(types.Default(t), types.Typ[types.Bool])
}

// typeOf returns the name by which the file knows an expression's type, or "".
func (f *file) typeOf(e ast.Expr) string {
	hidden := false
	name := types.TypeString(types.Default(f.info.TypeOf(e)), func(p *types.Package) string {
		if p == f.pkg {
			return ""
		}
		for _, i := range f.tree.Imports {
			if i.Name == nil && strings.Trim(i.Path.Value, `"`) == p.Path() {
				return p.Name()
			}
		}
		hidden = true
		return ""
	})
	if hidden {
		return ""
	}
	return name
}
