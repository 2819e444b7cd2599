//! One declaration for both uses of a custom resource definition: the struct that an object is read
//! into, and the [`Shape`] that it is validated by.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Shape;
use crate::{Finding, Object};

/// A type that values of a [`Shape`] are read into.
pub trait Schema {
    /// What a value must be.
    const SHAPE: Shape;
}

impl Schema for String {
    const SHAPE: Shape = Shape::Text;
}

impl Schema for bool {
    const SHAPE: Shape = Shape::Bool;
}

impl Schema for i32 {
    const SHAPE: Shape = Shape::Integer(i32::MIN as i64, i32::MAX as i64);
}

impl Schema for i64 {
    const SHAPE: Shape = Shape::Integer(i64::MIN, i64::MAX);
}

impl Schema for u64 {
    const SHAPE: Shape = Shape::Integer(0, i64::MAX);
}

impl Schema for Value {
    const SHAPE: Shape = Shape::Any;
}

impl<T: Schema> Schema for Option<T> {
    const SHAPE: Shape = T::SHAPE;
}

impl<T: Schema> Schema for Vec<T> {
    const SHAPE: Shape = Shape::List(0, &T::SHAPE);
}

impl<T: Schema> Schema for BTreeMap<String, T> {
    const SHAPE: Shape = Shape::Map(&T::SHAPE);
}

/// Reads a field of an object, such as `spec`; an absent one reads as the empty value.
///
/// The object has been validated by the [`Shape`] of the type, so that what cannot be read is rare, and the error,
/// under `code`, names the field only.
pub fn read_field<T: Default + DeserializeOwned>(
    object: &Object,
    field: &str,
    code: &'static str,
) -> Result<T, Finding> {
    let Some(value) = object.value_at(&[field]).filter(|value| !value.is_null()) else {
        return Ok(T::default());
    };
    T::deserialize(value).map_err(|e| {
        Finding::error(code, object, format!("`{field}`: {e}")).with_pointer(format!("/{field}"))
    })
}

/// Declares a struct of a custom resource definition: how it is read, and by [`Schema`] how it is
/// validated.
///
/// Each field has its name in JSON, whether it is required, and a [`Shape`] where the definition is
/// narrower than the Rust type. `null` reads as the type's empty value, as in Go. Blocks after the
/// struct add the fields of another such struct (`flatten`), further fields after these (`then`), fields that are
/// not part of the definition (`internal`), and fields of the definition that are validated but not read
/// (`unread`).
///
/// ```
/// use federate_kubernetes::schema::{Schema, Shape};
///
/// federate_kubernetes::crd! {
///     /// A taint of a cluster.
///     #[derive(Default, serde::Deserialize)]
///     pub struct Taint {
///         /// What the taint is about.
///         pub key: String = required("key", Shape::Filled),
///         pub value: Option<String> = optional("value"),
///     }
///     unread {
///         optional("timeAdded", Shape::Text),
///     }
/// }
///
/// let taint: Taint = serde_json::from_str(r#"{"key": "dedicated", "value": null}"#)?;
/// assert_eq!((taint.key.as_str(), taint.value), ("dedicated", None));
/// assert!(matches!(Taint::SHAPE, Shape::Object(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! crd {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[$attribute:meta])*
                $field_vis:vis $field:ident: $type:ty = $presence:ident($json:literal $(, $shape:expr)?)
            ),* $(,)?
        }
        $(flatten {
            $($(#[$flat_attribute:meta])* $flat_vis:vis $flat:ident: $flat_type:ty),* $(,)?
        })?
        $(then {
            $(
                $(#[$then_attribute:meta])*
                $then_vis:vis $then:ident: $then_type:ty = $then_presence:ident($then_json:literal $(, $then_shape:expr)?)
            ),* $(,)?
        })?
        $(internal {
            $($(#[$internal_attribute:meta])* $internal_vis:vis $internal:ident: $internal_type:ty),* $(,)?
        })?
        $(unread {
            $($unread_presence:ident($unread_json:literal, $unread_shape:expr)),* $(,)?
        })?
    ) => {
        $(#[$meta])*
        #[serde(default)]
        $vis struct $name {
            $(
                $(#[$attribute])*
                #[serde(rename = $json, deserialize_with = "federate_kubernetes::selector::null_default")]
                $field_vis $field: $type,
            )*
            $($(
                $(#[$flat_attribute])*
                #[serde(flatten)]
                $flat_vis $flat: $flat_type,
            )*)?
            $($(
                $(#[$then_attribute])*
                #[serde(rename = $then_json, deserialize_with = "federate_kubernetes::selector::null_default")]
                $then_vis $then: $then_type,
            )*)?
            $($(
                $(#[$internal_attribute])*
                #[serde(skip)]
                $internal_vis $internal: $internal_type,
            )*)?
        }

        impl $name {
            /// The fields of the definition that are not another struct's.
            pub(crate) const FIELDS: &'static [$crate::schema::Field] = &[
                $($crate::schema::Field::$presence($json, $crate::crd!(@shape $type $(, $shape)?)),)*
                $($($crate::schema::Field::$then_presence($then_json, $crate::crd!(@shape $then_type $(, $then_shape)?)),)*)?
                $($($crate::schema::Field::$unread_presence($unread_json, $unread_shape),)*)?
            ];
        }

        impl $crate::schema::Schema for $name {
            const SHAPE: $crate::schema::Shape =
                $crate::schema::Shape::Object(&[Self::FIELDS, $($(<$flat_type>::FIELDS,)*)?]);
        }
    };
    (@shape $type:ty) => { <$type as $crate::schema::Schema>::SHAPE };
    (@shape $type:ty, $shape:expr) => { $shape };
}
