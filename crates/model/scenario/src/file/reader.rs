//! Reads a value of the document as any type that implements `Deserialize`. Each fault has the key
//! at which it was found.

use std::fmt::{self, Display, Formatter};
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeString, DeTable, DeValue};

use crate::error::expected_one_of;
use crate::file::key::{Fault, Key, Step};

type Value<'t> = Spanned<DeValue<'t>>;

/// A value and where it is.
pub(super) struct Reader<'a, 't> {
    key: Key,
    value: &'a Value<'t>,
}

impl<'a, 't> Reader<'a, 't> {
    /// Reads a whole document.
    pub fn new(root: &'a Value<'t>) -> Reader<'a, 't> {
        let key = Key::default();
        Reader { key, value: root }
    }

    fn written(&self) -> &'a DeValue<'t> {
        self.value.get_ref()
    }

    /// The fault of this value, which is not `what`.
    fn expected(&self, what: &str) -> Fault {
        let found = found(self.written());
        Fault::custom(format!("expected {what}, got {found}"))
    }

    fn list(&self, values: &'a [Value<'t>]) -> List<'a, 't> {
        let key = self.key.clone();
        let values = values.iter().enumerate();
        List { key, values }
    }

    fn table(&self, table: &'a DeTable<'t>) -> Table<'a, 't> {
        Table {
            key: self.key.clone(),
            entries: table.iter(),
            next: None,
        }
    }
}

/// A whole number, unless it is beyond 64 bits.
fn integer(number: &DeInteger<'_>) -> Option<i128> {
    let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX))
        .contains(&number)
        .then_some(number)
}

/// A number, unless it is too large to be finite.
fn float(number: &DeFloat<'_>) -> Option<f64> {
    let text = number.as_str();
    let number: f64 = text.parse().ok()?;
    (!number.is_infinite() || text.contains("inf")).then_some(number)
}

/// Reads whole numbers from 0 to the largest of a type.
macro_rules! unsigned {
    ($($method:ident $Type:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let number = match self.written() {
                DeValue::Integer(number) => match integer(number) {
                    Some(number) => Some(number),
                    None => return Err(self.expected("a number of at most 64 bits")),
                },
                _ => None,
            };
            match number {
                Some(number) if number > $Type::MAX.into() => {
                    Err(self.expected(&format!("a whole number from 0 to {}", $Type::MAX)))
                }
                Some(number) if number >= 0 => visitor.visit_u64(number as u64),
                _ => Err(self.expected("a whole number of at least 0")),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Reader<'_, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match integer(number).map(i64::try_from) {
                Some(Ok(number)) => visitor.visit_i64(number),
                Some(Err(_)) => self.deserialize_u64(visitor),
                None => Err(self.expected("a number of at most 64 bits")),
            },
            DeValue::Float(number) => match float(number) {
                Some(number) => visitor.visit_f64(number),
                None => Err(self.expected("a number of at most 64 bits")),
            },
            DeValue::Boolean(truth) => visitor.visit_bool(*truth),
            DeValue::Datetime(_) => Err(self.expected("a string or a number")),
            DeValue::Array(values) => visitor.visit_seq(self.list(values)),
            DeValue::Table(table) => visitor.visit_map(self.table(table)),
        }
    }

    unsigned! { deserialize_u8 u8 deserialize_u16 u16 deserialize_u32 u32 deserialize_u64 u64 }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::Integer(_) | DeValue::Float(_) => self.deserialize_any(visitor),
            _ => Err(self.expected("a number")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::Boolean(_) => self.deserialize_any(visitor),
            _ => Err(self.expected("a boolean")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::String(_) => self.deserialize_any(visitor),
            _ => Err(self.expected("a string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::Array(_) => self.deserialize_any(visitor),
            DeValue::Table(_) => {
                // Whether the list has tables: does this one read as its first entry?
                let as_list = visitor.visit_seq(self.list(slice::from_ref(self.value)));
                let is_entry = !as_list.is_err_and(|fault| fault.key.0 == [Step::Index(0)]);
                Err(match (is_entry, self.key.0.len()) {
                    (false, _) => self.expected("a list"),
                    (true, 1) => Fault::custom(format!(
                        "expected a list of tables, got a table: write [[{}]]",
                        self.key
                    )),
                    (true, _) => self.expected("a list of tables"),
                })
            }
            _ => Err(self.expected("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.written() {
            DeValue::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.expected(&table(&self.key))),
        }
    }

    /// A list is refused: it would give the fields in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    /// A variant is its name, or a table with one entry of that name.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (name, content) = match self.written() {
            DeValue::String(name) => (&**name, None),
            DeValue::Table(table) => {
                let mut entries = table.iter();
                match (entries.next(), entries.next()) {
                    (Some((name, value)), None) => (&**name.get_ref(), Some(value)),
                    _ => {
                        let expected = table_with_one_key(&self.key);
                        return Err(Fault::custom(format!("expected {expected}")));
                    }
                }
            }
            _ if has_a_kind(&self.key) => {
                return Err(self.expected(&table(&self.key)));
            }
            _ => return Err(Fault::custom("expected a string")),
        };
        let key = self.key;
        visitor.visit_enum(Variant { key, name, content })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

/// The entries of a list.
struct List<'a, 't> {
    key: Key,
    values: std::iter::Enumerate<slice::Iter<'a, Value<'t>>>,
}

impl<'de> SeqAccess<'de> for List<'_, '_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, value)) = self.values.next() else {
            return Ok(None);
        };
        let key = self.key.index(index);
        let read = seed.deserialize(Reader { key, value });
        read.map(Some)
            .map_err(|fault| fault.below(Step::Index(index)))
    }
}

/// The entries of a table.
struct Table<'a, 't> {
    key: Key,
    entries: toml::map::Iter<'a, Spanned<DeString<'t>>, Value<'t>>,
    next: Option<(&'a str, &'a Value<'t>)>,
}

impl<'de> MapAccess<'de> for Table<'_, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((name, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.next = Some((name.get_ref(), value));
        seed.deserialize(plain(name.get_ref())).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (name, value) = self.next.take().expect("a value comes after its key");
        let key = self.key.key(name);
        seed.deserialize(Reader { key, value })
            .map_err(|fault| fault.below(Step::Key(name.to_owned())))
    }
}

/// A variant of an enum and what is in it, if anything is.
struct Variant<'a, 't> {
    key: Key,
    name: &'a str,
    content: Option<&'a Value<'t>>,
}

impl Variant<'_, '_> {
    fn read<T>(self, read: impl FnOnce(Reader<'_, '_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let below = |fault: Fault| fault.below(Step::Key(self.name.to_owned()));
        let Some(value) = self.content else {
            return Err(below(Fault::custom("expected a table, got a string")));
        };
        let key = self.key.key(self.name);
        read(Reader { key, value }).map_err(below)
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        Ok((seed.deserialize(plain(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        if self.content.is_none() {
            return Ok(());
        }
        let kind = Key(self.key.0.last().cloned().into_iter().collect());
        Err(Key::root(self.name).fault(format!("expected {kind} = {:?}", self.name)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.read(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.read(|reader| reader.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.read(|reader| reader.deserialize_map(visitor))
    }
}

/// The name of a key or a variant.
fn plain(name: &str) -> StrDeserializer<'_, Fault> {
    name.into_deserializer()
}

// Serde's errors as faults, in the words of this crate: what was expected, then what was found.

/// The key of a fault is relative to the value that is read; who reads what is around that value
/// adds the steps to it.
impl Error for Fault {
    fn custom<T: Display>(message: T) -> Fault {
        Key::default().fault(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        let found = match found {
            Unexpected::Bool(truth) => truth.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            Unexpected::Str(text) => format!("{text:?}"),
            Unexpected::Seq => LIST.to_owned(),
            Unexpected::Map => TABLE.to_owned(),
            other => other.to_string(),
        };
        Fault::custom(format!("expected {expected}, got {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Fault {
        let expected = expected_one_of(found, known);
        Fault::custom(format!("unknown value {found:?}, {expected}"))
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Fault {
        Key::root(found).fault(format!("unknown key, {}", expected_one_of(found, known)))
    }

    fn missing_field(name: &'static str) -> Fault {
        Key::root(name).fault("missing key")
    }
}

impl std::error::Error for Fault {}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

const LIST: &str = "a list";
const TABLE: &str = "a table";

/// Description of a written value, as the end of a sentence.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => LIST.to_owned(),
        DeValue::Table(_) => TABLE.to_owned(),
    }
}

/// Name of a table at `key`, with an example where it has one entry, its kind.
pub(super) fn table(key: &Key) -> String {
    format!("{TABLE}{}", such_as(key))
}

/// Name of a table with one entry, its kind.
pub(super) fn table_with_one_key(key: &Key) -> String {
    format!("{TABLE} with one key{}", such_as(key))
}

/// Whether the value at `key` is a table with one entry, its kind.
pub(super) fn has_a_kind(key: &Key) -> bool {
    example(key).is_some()
}

fn such_as(key: &Key) -> String {
    example(key).map_or(String::new(), |example| format!(", such as {example}"))
}

fn example(key: &Key) -> Option<&'static str> {
    let mut examples = EXAMPLES.iter();
    let example = examples.find(|(name, _)| key.0.last() == Some(&Step::Key((*name).to_owned())));
    example.map(|(_, example)| *example)
}

/// Examples by the last word of the key.
const EXAMPLES: [(&str, &str); 4] = [
    ("loss", "loss.bernoulli = { probability = 0.01 }"),
    ("queue", "queue.drop_tail = { packets = 100 }"),
    ("size", "size.exponential = { mean_bytes = 100000 }"),
    ("workload", "workload.file = { bytes = 1000000 }"),
];
