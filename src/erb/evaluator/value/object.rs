//! Objects, classes and methods.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{RHash, RString, Value};
use crate::evaluator::stdlib::ipaddr::Address;
use crate::evaluator::stdlib::openssl::Name as DistinguishedName;
use crate::evaluator::stdlib::time::Moment;
use crate::evaluator::stdlib::uri::Uri;
use crate::parse::ir::{Body, Name};

/// A class or module.
pub(crate) struct Class {
    pub(crate) name: RefCell<Option<Name>>,
    pub(crate) superclass: Option<Rc<Class>>,
    pub(crate) is_module: bool,
    /// Around it lexically, for constants.
    pub(crate) outer: Option<Rc<Class>>,
    pub(crate) methods: RefCell<FxHashMap<Name, Rc<Method>>>,
    pub(crate) singleton: RefCell<FxHashMap<Name, Rc<Method>>>,
    pub(crate) constants: RefCell<IndexMap<Name, Value, FxBuildHasher>>,
    pub(crate) variables: RefCell<FxHashMap<Name, Value>>,
    pub(crate) included: RefCell<Vec<Rc<Class>>>,
    pub(crate) extended: RefCell<Vec<Rc<Class>>>,
    /// The members of a Struct, and whether they are given by keyword.
    pub(crate) members: RefCell<Option<(Vec<Name>, bool)>>,
    /// Methods defined from now on have this visibility.
    pub(crate) visibility: Cell<Visibility>,
    pub(crate) module_function: Cell<bool>,
}

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Public,
    Protected,
    Private,
}

/// A method a template defined.
pub(crate) struct Method {
    pub(crate) name: Name,
    pub(crate) body: MethodBody,
    pub(crate) owner: Rc<Class>,
    pub(crate) visibility: Visibility,
}

/// What a method runs.
pub(crate) enum MethodBody {
    Code(Arc<Body>),
    Reader(Name),
    Writer(Name),
    Proc(Value),
    /// Another name for a method of Ruby's own.
    Builtin(Name),
}

/// An object.
pub(crate) struct Object {
    pub(crate) class: Rc<Class>,
    pub(crate) id: u64,
    pub(crate) variables: RefCell<IndexMap<Name, Value, FxBuildHasher>>,
    pub(crate) data: RefCell<Data>,
    pub(crate) frozen: Cell<bool>,
    pub(crate) singleton: RefCell<Option<Rc<Class>>>,
}

/// What an object of a class of Ruby's own keeps.
pub(crate) enum Data {
    Plain,
    /// A Struct's values.
    Fields(Vec<Value>),
    /// The values of an OpenStruct or of upstream's property struct, by symbol.
    Table(Rc<RHash>),
    Set(Rc<RHash>),
    Exception(Exception),
    /// The call an enumerator stands for.
    Enumerator {
        receiver: Value,
        method: Name,
        args: Vec<Value>,
        lazy: bool,
    },
    Address(Address),
    Uri(Uri),
    Time(Moment),
    /// A digest being fed: algorithm and bytes so far.
    Digest(&'static str, Vec<u8>),
    /// An X.509 certificate, DER.
    Certificate(Rc<Vec<u8>>),
    /// The name of a certificate's subject or issuer.
    DistinguishedName(Rc<DistinguishedName>),
    /// A `StringIO` or what reads from one: the text, and how many bytes of it are read.
    Reader(Rc<RString>, usize),
    /// `if_p` found nothing: its `else` runs.
    Else {
        active: bool,
    },
}

/// What an exception carries.
pub(crate) struct Exception {
    pub(crate) message: Value,
    pub(crate) cause: Value,
    /// Where it was raised, in the generated source.
    pub(crate) span: Option<(u32, u32)>,
    /// The nearest existing property.
    pub(crate) unknown_properties: Vec<String>,
    /// `key`, `name`, `receiver` and the like.
    pub(crate) detail: Value,
}

impl Class {
    pub(crate) fn new(
        name: Option<&str>,
        superclass: Option<Rc<Class>>,
        is_module: bool,
        outer: Option<Rc<Class>>,
    ) -> Rc<Class> {
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
            included: RefCell::default(),
            extended: RefCell::default(),
            members: RefCell::new(members),
            visibility: Cell::new(Visibility::Public),
            module_function: Cell::new(false),
        })
    }

    /// The class's name, or what Ruby shows of an anonymous one.
    pub(crate) fn label(&self) -> String {
        match &*self.name.borrow() {
            Some(name) => name.to_string(),
            None => "#<Class:0x0000000000000000>".to_owned(),
        }
    }

    /// This class and its ancestors, modules included, in the order methods are looked up.
    pub(crate) fn ancestors(self: &Rc<Class>) -> Vec<Rc<Class>> {
        let mut list = Vec::new();
        let mut next = Some(Rc::clone(self));
        while let Some(class) = next {
            list.push(Rc::clone(&class));
            for module in class.included.borrow().iter().rev() {
                for ancestor in module.ancestors() {
                    if !list.iter().any(|known: &Rc<Class>| Rc::ptr_eq(known, &ancestor)) {
                        list.push(ancestor);
                    }
                }
            }
            next = class.superclass.clone();
        }
        list
    }

    /// Whether this is `other` or descends from it.
    pub(crate) fn descends_from(self: &Rc<Class>, other: &Rc<Class>) -> bool {
        let mut next = Some(Rc::clone(self));
        while let Some(class) = next {
            if Rc::ptr_eq(&class, other)
                || class.included.borrow().iter().any(|module| module.descends_from(other))
            {
                return true;
            }
            next = class.superclass.clone();
        }
        false
    }

    /// The method instances have, with modules and ancestors.
    pub(crate) fn find_method(self: &Rc<Class>, name: &str) -> Option<Rc<Method>> {
        let mut next = Some(Rc::clone(self));
        while let Some(class) = next {
            if let Some(method) = class.methods.borrow().get(name) {
                return Some(Rc::clone(method));
            }
            for module in class.included.borrow().iter().rev() {
                if let Some(method) = module.find_method(name) {
                    return Some(method);
                }
            }
            next = class.superclass.clone();
        }
        None
    }

    /// The method the class itself has.
    pub(crate) fn find_singleton(self: &Rc<Class>, name: &str) -> Option<Rc<Method>> {
        let mut next = Some(Rc::clone(self));
        while let Some(class) = next {
            if let Some(method) = class.singleton.borrow().get(name) {
                return Some(Rc::clone(method));
            }
            for module in class.extended.borrow().iter().rev() {
                if let Some(method) = module.find_method(name) {
                    return Some(method);
                }
            }
            next = class.superclass.clone();
        }
        None
    }
}
