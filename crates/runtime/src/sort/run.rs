//! Records in memory that are sorted together.

/// Records as bytes, one behind the other, and where each of them is.
#[derive(Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// How many were taken out.
    taken: usize,
}

#[derive(Clone, Copy)]
struct Place {
    hash: u32,
    start: usize,
    key_length: usize,
    payload_length: usize,
}

/// Hash, key and payload of a record.
pub(super) type RecordParts<'a> = (u32, &'a [u8], &'a [u8]);

impl Run {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many bytes are in use when a record is added.
    pub(super) fn bytes_with(&self, key: &[u8], payload: &[u8]) -> usize {
        self.bytes.len() + key.len() + payload.len() + (self.places.len() + 1) * size_of::<Place>()
    }

    pub(super) fn push(&mut self, hash: u32, key: &[u8], payload: &[u8]) {
        let start = self.bytes.len();
        self.places.push(Place { hash, start, key_length: key.len(), payload_length: payload.len() });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
    }

    /// By hash, then by key, then by the order in which they came, which is where they start.
    pub(super) fn sort(&mut self) {
        let Self { bytes, places, .. } = self;
        let key = |place: &Place| &bytes[place.start..place.start + place.key_length];
        places.sort_unstable_by(|one, other| {
            one.hash.cmp(&other.hash).then_with(|| key(one).cmp(key(other))).then_with(|| one.start.cmp(&other.start))
        });
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RecordParts<'_>> {
        self.places.iter().map(|place| self.parts(*place))
    }

    /// Takes the records one by one.
    pub(super) fn next(&mut self) -> Option<RecordParts<'_>> {
        let place = *self.places.get(self.taken)?;
        self.taken += 1;
        Some(self.parts(place))
    }

    fn parts(&self, place: Place) -> RecordParts<'_> {
        let Place { hash, start, key_length, payload_length } = place;
        let (key_end, end) = (start + key_length, start + key_length + payload_length);
        (hash, &self.bytes[start..key_end], &self.bytes[key_end..end])
    }
}
