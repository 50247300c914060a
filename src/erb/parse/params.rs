//! Lowers the parameters of blocks and methods.

use lib_ruby_parser::Node as Ast;

use super::ir::{Keyword, MultiTarget, Parameter, Params, Slot, Target};
use super::lower::{LowerResult, Lowerer, refuse};

impl Lowerer {
    /// Lowers the parameters of a method or block, and declares their variables.
    pub(super) fn lower_params(&mut self, ast: Option<&Ast>) -> LowerResult<Params> {
        let mut params = Params::default();
        let Some(ast) = ast else { return Ok(params) };
        let Ast::Args(list) = ast else { return refuse(ast, "these parameters") };
        for arg in &list.args {
            match arg {
                Ast::Procarg0(sole) => match sole.args.as_slice() {
                    [Ast::Arg(arg)] => {
                        let slot = self.declare(&arg.name);
                        params.required_params.push(Parameter::Slot(slot));
                        params.is_single = true;
                    }
                    items => {
                        let target = self.lower_nested_param(items)?;
                        params.required_params.push(Parameter::Nested(target));
                        params.is_single = true;
                    }
                },
                Ast::Arg(arg) => {
                    let slot = Parameter::Slot(self.declare(&arg.name));
                    self.push_positional(&mut params, slot);
                }
                Ast::Mlhs(list) => {
                    let parameter = Parameter::Nested(self.lower_nested_param(&list.items)?);
                    self.push_positional(&mut params, parameter);
                }
                Ast::Optarg(arg) => {
                    let slot = self.declare(&arg.name);
                    let default = self.lower_expr(&arg.default)?;
                    params.optional_params.push((slot, default));
                }
                Ast::Restarg(arg) => params.rest = Some(arg.name.as_deref().map(|name| self.declare(name))),
                Ast::Kwarg(arg) => {
                    let slot = self.declare(&arg.name);
                    params.keywords.push(Keyword { name: self.intern_name(&arg.name), slot, default: None });
                }
                Ast::Kwoptarg(arg) => {
                    let slot = self.declare(&arg.name);
                    let default = Some(self.lower_expr(&arg.default)?);
                    params.keywords.push(Keyword { name: self.intern_name(&arg.name), slot, default });
                }
                Ast::Kwrestarg(arg) => {
                    params.keyword_rest = Some(arg.name.as_deref().map(|name| self.declare(name)));
                }
                Ast::Blockarg(arg) => match arg.name.as_deref() {
                    Some(name) => params.block = Some(self.declare(name)),
                    None => return refuse(ast, "an anonymous block parameter"),
                },
                Ast::Shadowarg(arg) => {
                    self.declare(&arg.name);
                }
                Ast::Kwnilarg(_) => {}
                other => return refuse(other, "this parameter"),
            }
        }
        Ok(params)
    }

    fn push_positional(&mut self, params: &mut Params, parameter: Parameter) {
        if params.rest.is_some() || !params.optional_params.is_empty() {
            params.trailing_params.push(parameter);
        } else {
            params.required_params.push(parameter);
        }
    }

    /// Lowers a destructured parameter. Its names hide variables around the block.
    fn lower_nested_param(&mut self, items: &[Ast]) -> LowerResult<MultiTarget> {
        let mut multi =
            MultiTarget { leading_targets: Vec::new(), splat: None, trailing_targets: Vec::new() };
        for item in items {
            let target = match item {
                Ast::Arg(arg) => Target::Local(Slot { depth: 0, index: self.declare(&arg.name) }),
                Ast::Mlhs(list) => Target::Nested(self.lower_nested_param(&list.items)?),
                Ast::Restarg(rest) => {
                    let slot = rest
                        .name
                        .as_deref()
                        .map(|name| Box::new(Target::Local(Slot { depth: 0, index: self.declare(name) })));
                    multi.splat = Some(slot);
                    continue;
                }
                other => return refuse(other, "this parameter"),
            };
            if multi.splat.is_some() {
                multi.trailing_targets.push(target)
            } else {
                multi.leading_targets.push(target)
            }
        }
        Ok(multi)
    }
}
