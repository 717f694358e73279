package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// walk visits what is executed of a function, and plants at each place all bugs that fit there.
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
				f.constant(n, parents[len(parents)-1])
				return false
			}
		}
		f.statement(n, parents)
		if e, ok := n.(ast.Expr); ok {
			f.expression(e)
		}
		parents = append(parents, n)
		return true
	})
}

func (f *file) statement(n ast.Node, parents []ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		f.list(n.List)
	case *ast.CaseClause:
		f.list(n.Body)
		for _, e := range n.List {
			if f.isBool(e) {
				f.condition("case", e, true, false)
			} else if v := f.info.Types[e].Value; v != nil && v.Kind() == constant.String {
				f.around(e, fmt.Sprintf("planted.Zero(%d, %s(", f.add(e, "case left out", ""), f.typeOf(e)), "))")
			}
		}
	case *ast.IfStmt:
		f.condition("if", n.Cond, true, false)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition("for", n.Cond, false)
		}
	case *ast.RangeStmt:
		if _, ok := f.info.TypeOf(n.X).Underlying().(*types.Slice); ok {
			f.around(n.X, fmt.Sprintf("planted.Most(%d, ", f.add(n.X, "last of a range left out", "all but the last")), ")")
		}
	case *ast.ReturnStmt:
		f.returned(n, f.signature(parents))
	case *ast.AssignStmt:
		for _, e := range n.Rhs {
			f.negate(e, "assigned")
		}
	}
}

// condition plants a condition that counts as the given values whatever it is. So its negation need not be tried.
func (f *file) condition(where string, e ast.Expr, said ...bool) {
	if !f.isBool(e) || f.info.Types[e].Value != nil {
		return
	}
	for _, v := range said {
		f.around(e, fmt.Sprintf("planted.Is(%d, %t, ", f.add(e, where+" condition", fmt.Sprint(v)), v), ")")
	}
}

func (f *file) negate(e ast.Expr, where string) {
	if f.isBool(e) {
		f.around(e, fmt.Sprintf("planted.Not(%d, ", f.add(e, where+" value negated", "!("+f.text(e)+")")), ")")
	}
}

// returned plants errors that are swallowed, and truths that are not.
func (f *file) returned(n *ast.ReturnStmt, s *types.Signature) {
	if len(n.Results) != s.Results().Len() {
		return
	}
	for i, e := range n.Results {
		switch {
		case types.Identical(s.Results().At(i).Type(), types.Universe.Lookup("error").Type()) && !f.info.Types[e].IsNil():
			f.around(e, fmt.Sprintf("planted.Err(%d, ", f.add(e, "error swallowed", "nil")), ")")
		default:
			f.negate(e, "returned")
		}
	}
}

// signature is that of the innermost function.
func (f *file) signature(parents []ast.Node) *types.Signature {
	for i := len(parents) - 1; i > 0; i-- {
		if literal, ok := parents[i].(*ast.FuncLit); ok {
			return f.info.TypeOf(literal).(*types.Signature)
		}
	}
	return f.info.Defs[f.function.Name].Type().(*types.Signature)
}

// list plants statements that are left out, and such that come before the one they follow.
func (f *file) list(statements []ast.Stmt) {
	for i, s := range statements {
		if !f.removable(s) {
			continue
		}
		if i > 0 && f.movable(s) && f.passable(statements[i-1]) {
			n := f.add(s, "statement too early", "before "+f.text(statements[i-1]))
			at := statements[i-1].Pos()
			f.before(at, at, fmt.Sprintf("if planted.Early(%d) { %s }; ", n, f.text(s)))
			f.around(s, fmt.Sprintf("if planted.Kept(%d) { ", n), " }")
		}
		f.around(s, fmt.Sprintf("if planted.Kept(%d) { ", f.add(s, "statement left out", "")), " }")
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

func (f *file) movable(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.BranchStmt, *ast.DeferStmt:
		return false
	}
	return true
}

// passable tells whether it may make a difference that another statement comes before this one, and whether it can.
func (f *file) passable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.ExprStmt:
		return true
	case *ast.AssignStmt:
		calls := false
		ast.Inspect(s, func(n ast.Node) bool {
			_, call := n.(*ast.CallExpr)
			calls = calls || call
			return true
		})
		return s.Tok != token.DEFINE && calls
	}
	return false
}

func (f *file) expression(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.CallExpr:
		f.call(e)
	case *ast.CompositeLit:
		f.composite(e)
	}
}

// binary plants operands that do not count, and bounds that are moved.
func (f *file) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.LAND, token.LOR:
		for _, operand := range []ast.Expr{e.X, e.Y} {
			f.condition("operand of "+e.Op.String()+":", operand, e.Op == token.LAND)
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		// a > b is written as the negation of a <= b, whose bound moves the other way.
		name, not, moved := "Less", "", map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[e.Op]
		if e.Op == token.LEQ || e.Op == token.GTR {
			name = "LessEqual"
		}
		if e.Op == token.GTR || e.Op == token.GEQ {
			not = "!"
		}
		f.around(e, fmt.Sprintf("%splanted.%s(%d, ", not, name, f.add(e, "bound moved", f.text(e.X)+" "+moved+" "+f.text(e.Y))), ")")
		f.between(e.X.End(), e.Y.Pos(), ", ")
	}
}

func (f *file) call(e *ast.CallExpr) {
	if f.info.Types[e.Fun].IsType() {
		return
	}
	switch name := f.text(e.Fun); {
	case f.info.Types[e.Fun].IsBuiltin():
		if name == "min" || name == "max" {
			other := map[string]string{"min": "max", "max": "min"}[name]
			n := f.add(e, "min and max exchanged", other+strings.TrimPrefix(f.text(e), name))
			f.before(e.Pos(), e.Lparen+1, fmt.Sprintf("planted.%s(%d, ", map[string]string{"min": "Min", "max": "Max"}[name], n))
		}
		return
	default:
		f.instants(e)
	}
	for i, a := range e.Args {
		f.negate(a, "given")
		if i == 0 || e.Ellipsis.IsValid() {
			continue
		}
		if b := e.Args[i-1]; f.isPure(a) && f.isPure(b) && f.text(a) != f.text(b) && types.Identical(f.info.TypeOf(a), f.info.TypeOf(b)) {
			n := f.add(e, "arguments exchanged", f.text(b)+" ↔ "+f.text(a))
			f.around(b, fmt.Sprintf("planted.Either(%d, ", n), ", "+f.text(a)+")")
			f.around(a, fmt.Sprintf("planted.Either(%d, ", n), ", "+f.text(b)+")")
		}
	}
}

// instants plants bounds that are moved in comparisons of times.
func (f *file) instants(e *ast.CallExpr) {
	s, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || f.info.Selections[s] == nil {
		return
	}
	method, _ := f.info.Selections[s].Obj().(*types.Func)
	if method == nil {
		return
	}
	switch method.FullName() {
	case "(time.Time).Before", "(time.Time).After":
		n := f.add(e, "bound moved", f.text(e)+", or equal")
		f.before(s.X.Pos(), s.X.Pos(), fmt.Sprintf("planted.%s(%d, ", s.Sel.Name, n))
		f.between(s.X.End(), e.Args[0].Pos(), ", ")
	}
}

// composite plants fields that are left out.
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
		if ok && inner.Type == nil || tv.IsNil() || tv.Value == nil && !types.Identical(field.Type(), tv.Type) {
			continue
		}
		n := f.add(value, "field left out", field.Name()+" is not set")
		if tv.Value == nil {
			f.around(value, fmt.Sprintf("planted.Zero(%d, ", n), ")")
		} else if t := f.typeOf(value); t != "" {
			f.around(value, fmt.Sprintf("planted.Zero(%d, %s(", n, t), "))")
		}
	}
}

// constant plants numbers that are slightly wrong.
func (f *file) constant(e ast.Expr, parent ast.Node) {
	tv := f.info.Types[e]
	if pair, ok := parent.(*ast.KeyValueExpr); ok && pair.Key == e || tv.Value == nil {
		return
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	if !ok || basic.Info()&types.IsNumeric == 0 || tv.Value.Kind() != constant.Int || f.typeOf(e) == "" {
		return
	}
	text, t := f.text(e), f.typeOf(e)
	type change struct{ after, by string }
	changes := []change{{text + " + 1", "1"}}
	switch value, _ := constant.Int64Val(tv.Value); {
	case t == "time.Duration" && value != 0:
		changes = []change{{"half of " + text, "-(" + text + ")/2"}, {"twice " + text, text}}
	case value > 0 && basic.Info()&types.IsUnsigned != 0:
		changes = append(changes, change{text + " - 1", "^" + t + "(0)"})
	case value > 0:
		changes = append(changes, change{text + " - 1", "-1"})
	}
	for _, c := range changes {
		f.around(e, fmt.Sprintf("planted.Plus[%s](%d, ", t, f.add(e, "number changed", c.after)), ", "+c.by+")")
	}
}

func (f *file) isBool(e ast.Expr) bool {
	t := f.info.TypeOf(e)
	return t != nil && types.Identical(types.Default(t), types.Typ[types.Bool])
}

// isPure tells whether a variable or a field of one is named, so that looking at it twice makes no difference.
func (f *file) isPure(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		_, ok := f.info.Uses[e].(*types.Var)
		return ok
	case *ast.SelectorExpr:
		s := f.info.Selections[e]
		return s != nil && s.Kind() == types.FieldVal && f.isPure(e.X)
	}
	return false
}

// typeOf is how the file names an expression's type; "" if it cannot.
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
