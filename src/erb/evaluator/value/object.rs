//! Objects, classes and methods.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{RHash, RString, Value, ValuePart, deep_drop, deep_drop_values};
use crate::evaluator::meter::{self, Charge};
use crate::evaluator::stdlib::ipaddr::Address;
use crate::evaluator::stdlib::openssl::DistinguishedName;
use crate::evaluator::stdlib::time::Moment;
use crate::evaluator::stdlib::uri::Uri;
use crate::parse::ir::{Body, Name};

/// The maximum number of superclasses of a class, and of modules that it includes.
const MAX_ANCESTORS: usize = 200;
/// The bytes that a class takes, without the values that it refers to.
const CLASS_BYTES: usize = 1024;

/// A class or module. Its maps have only the methods that a template defined; Ruby's own are in
/// `evaluator::methods`.
pub(crate) struct Class {
    /// The full name (`Outer::Inner`). `None` for an anonymous class.
    pub(crate) name: RefCell<Option<Name>>,
    pub(crate) superclass: Option<Rc<Class>>,
    pub(crate) is_module: bool,
    /// The class around this one in the source, where constants are looked up next.
    pub(crate) outer: Option<Rc<Class>>,
    /// The methods of instances.
    pub(crate) methods: RefCell<FxHashMap<Name, Rc<Method>>>,
    /// The methods of the class itself.
    pub(crate) singleton: RefCell<FxHashMap<Name, Rc<Method>>>,
    pub(crate) constants: RefCell<IndexMap<Name, Value, FxBuildHasher>>,
    /// Class variables (`@@name`) and the class's own instance variables (`@name`).
    pub(crate) variables: RefCell<FxHashMap<Name, Value>>,
    pub(crate) included_modules: RefCell<Vec<Rc<Class>>>,
    /// The modules that were added by `extend`.
    pub(crate) singleton_modules: RefCell<Vec<Rc<Class>>>,
    /// The members of a Struct class, and its `keyword_init`.
    pub(crate) members: RefCell<Option<(Vec<Name>, bool)>>,
    /// The visibility of the next methods to be defined.
    pub(crate) visibility: Cell<Visibility>,
    /// True if the next methods also become methods of the module itself.
    pub(crate) defines_module_functions: Cell<bool>,
    pub(crate) charge: Charge,
}

/// The callers that a method accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Public,
    Protected,
    Private,
}

/// A method that a template defined.
pub(crate) struct Method {
    pub(crate) name: Name,
    pub(crate) body: MethodBody,
    pub(crate) owner: Rc<Class>,
    pub(crate) visibility: Visibility,
}

/// The code of a method.
pub(crate) enum MethodBody {
    /// The body of a `def`.
    Code(Arc<Body>),
    /// Returns an instance variable (`attr_reader`).
    AttributeReader(Name),
    /// Sets an instance variable (`attr_writer`).
    AttributeWriter(Name),
    /// The block of `define_method`.
    Proc(Value),
    /// An alias of one of Ruby's own methods.
    Builtin(Name),
}

/// An object whose class has no variant of [`Value`].
pub(crate) struct Object {
    pub(crate) class: Rc<Class>,
    pub(crate) id: u64,
    /// The instance variables (`@name`).
    pub(crate) variables: RefCell<IndexMap<Name, Value, FxBuildHasher>>,
    pub(crate) data: RefCell<Data>,
    pub(crate) is_frozen: Cell<bool>,
    /// The class of the methods that only this object has.
    pub(crate) singleton: RefCell<Option<Rc<Class>>>,
    pub(crate) charge: Charge,
}

impl Drop for Object {
    fn drop(&mut self) {
        let variables = std::mem::take(self.variables.get_mut());
        let data = std::mem::replace(self.data.get_mut(), Data::Plain);
        deep_drop_values(variables.into_values().chain(data.into_values()));
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        let classes = [self.superclass.take(), self.outer.take()].into_iter().flatten();
        let modules = self.included_modules.take().into_iter().chain(self.singleton_modules.take());
        let values = self.constants.take().into_values().chain(self.variables.take().into_values());
        deep_drop(classes.chain(modules).map(ValuePart::Class).chain(values.map(ValuePart::Value)));
    }
}

impl Data {
    /// Returns the values in the content.
    fn into_values(self) -> impl Iterator<Item = Value> {
        let values = match self {
            Data::Struct(fields) => fields,
            Data::Table(hash) | Data::Set(hash) => vec![Value::Hash(hash)],
            Data::Exception(exception) => vec![exception.message, exception.cause, exception.detail],
            Data::Enumerator { receiver, mut args, .. } => {
                args.push(receiver);
                args
            }
            Data::Plain
            | Data::Address(_)
            | Data::Uri(_)
            | Data::Time(_)
            | Data::Digest(..)
            | Data::Certificate(_)
            | Data::DistinguishedName(_)
            | Data::TextStream(..)
            | Data::ElseBlock { .. } => Vec::new(),
        };
        values.into_iter()
    }
}

/// The content of an object of one of Ruby's own classes.
pub(crate) enum Data {
    /// No content besides instance variables.
    Plain,
    /// The values of a Struct, in the order of its members.
    Struct(Vec<Value>),
    /// The values of an OpenStruct or of upstream's property struct, by symbol.
    Table(Rc<RHash>),
    /// The items of a Set, as keys.
    Set(Rc<RHash>),
    Exception(Exception),
    /// The call that an enumerator repeats with a block.
    Enumerator {
        receiver: Value,
        method: Name,
        args: Vec<Value>,
        is_lazy: bool,
    },
    Address(Address),
    Uri(Uri),
    Time(Moment),
    /// A digest: the algorithm and the bytes added so far.
    Digest(&'static str, Vec<u8>),
    /// An X.509 certificate in DER.
    Certificate(Rc<Vec<u8>>),
    /// The name of a certificate's subject or issuer.
    DistinguishedName(Rc<DistinguishedName>),
    /// A `StringIO`, or a reader on one: the text, and the number of bytes read from it.
    TextStream(Rc<RString>, usize),
    /// The result of `if_p`.
    ElseBlock {
        /// True if a property was missing, so `else` runs.
        is_active: bool,
    },
}

/// The content of an exception.
pub(crate) struct Exception {
    pub(crate) message: Value,
    pub(crate) cause: Value,
    /// The expression that raised it, as a byte range of the generated Ruby source.
    pub(crate) span: Option<(u32, u32)>,
    /// The properties that `p` did not find.
    pub(crate) unknown_properties: Vec<String>,
    /// The value of `key`, `name` or a similar method of the exception.
    pub(crate) detail: Value,
}

impl Class {
    pub(crate) fn new(
        name: Option<&str>,
        superclass: Option<Rc<Class>>,
        is_module: bool,
        outer: Option<Rc<Class>>,
    ) -> Rc<Class> {
        if superclass.as_ref().is_some_and(|class| class.depth() >= MAX_ANCESTORS) {
            meter::unwind_with_limit_error(format!("a class has more than {MAX_ANCESTORS} superclasses"));
        }
        let members = superclass.as_ref().and_then(|class| class.members.borrow().clone());
        Rc::new(Class {
            name: RefCell::new(name.map(Arc::from)),
            superclass,
            is_module,
            outer,
            methods: RefCell::default(),
            singleton: RefCell::default(),
            constants: RefCell::default(),
            variables: RefCell::default(),
            included_modules: RefCell::default(),
            singleton_modules: RefCell::default(),
            members: RefCell::new(members),
            visibility: Cell::new(Visibility::Public),
            defines_module_functions: Cell::new(false),
            charge: Charge::new(CLASS_BYTES),
        })
    }

    /// Returns the name as Ruby shows it. An anonymous class gets an address of zeros.
    pub(crate) fn label(&self) -> String {
        match &*self.name.borrow() {
            Some(name) => name.to_string(),
            None => "#<Class:0x0000000000000000>".to_owned(),
        }
    }

    /// Returns the number of superclasses.
    fn depth(&self) -> usize {
        let mut depth = 0;
        let mut next_class = self.superclass.as_ref();
        while let Some(class) = next_class {
            depth += 1;
            next_class = class.superclass.as_ref();
        }
        depth
    }

    /// Adds a module to a list of included modules, unless it is there.
    pub(crate) fn mix_in(list: &RefCell<Vec<Rc<Class>>>, module: &Rc<Class>) {
        let mut list = list.borrow_mut();
        if list.iter().any(|member| Rc::ptr_eq(member, module)) {
            return;
        }
        let modules = list.iter().map(|member| member.ancestors().len()).sum::<usize>();
        if modules + module.ancestors().len() > MAX_ANCESTORS {
            meter::unwind_with_limit_error(format!("a class includes more than {MAX_ANCESTORS} modules"));
        }
        list.push(Rc::clone(module));
    }

    /// Returns this class, its modules and its ancestors in the order in which methods are looked up.
    pub(crate) fn ancestors(self: &Rc<Class>) -> Vec<Rc<Class>> {
        let mut list = Vec::new();
        let mut next_class = Some(Rc::clone(self));
        while let Some(class) = next_class {
            list.push(Rc::clone(&class));
            for module in class.included_modules.borrow().iter().rev() {
                for ancestor in module.ancestors() {
                    if !list.iter().any(|entry: &Rc<Class>| Rc::ptr_eq(entry, &ancestor)) {
                        list.push(ancestor);
                    }
                }
            }
            next_class = class.superclass.clone();
        }
        list
    }

    /// Returns true if this class is `other`, descends from it, or includes it.
    pub(crate) fn descends_from(self: &Rc<Class>, other: &Rc<Class>) -> bool {
        let mut next_class = Some(Rc::clone(self));
        while let Some(class) = next_class {
            if Rc::ptr_eq(&class, other)
                || class.included_modules.borrow().iter().any(|module| module.descends_from(other))
            {
                return true;
            }
            next_class = class.superclass.clone();
        }
        false
    }

    /// Finds a method of the class's instances, including those of its modules and ancestors.
    pub(crate) fn find_method(self: &Rc<Class>, name: &str) -> Option<Rc<Method>> {
        let mut next_class = Some(Rc::clone(self));
        while let Some(class) = next_class {
            if let Some(method) = class.methods.borrow().get(name) {
                return Some(Rc::clone(method));
            }
            for module in class.included_modules.borrow().iter().rev() {
                if let Some(method) = module.find_method(name) {
                    return Some(method);
                }
            }
            next_class = class.superclass.clone();
        }
        None
    }

    /// Finds a method of the class itself, including those of its ancestors and of modules that extend it.
    pub(crate) fn find_singleton(self: &Rc<Class>, name: &str) -> Option<Rc<Method>> {
        let mut next_class = Some(Rc::clone(self));
        while let Some(class) = next_class {
            if let Some(method) = class.singleton.borrow().get(name) {
                return Some(Rc::clone(method));
            }
            for module in class.singleton_modules.borrow().iter().rev() {
                if let Some(method) = module.find_method(name) {
                    return Some(method);
                }
            }
            next_class = class.superclass.clone();
        }
        None
    }
}
