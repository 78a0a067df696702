//! Values that can be had again, kept within a bound of bytes and a bound of entries. The oldest go first.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::limits;

/// The newest entry always stays, so that one that is too large by itself still serves who asked for it.
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, (V, usize)>,
    /// The keys, oldest first.
    order: VecDeque<K>,
    bytes: usize,
    bytes_max: usize,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self::of(limits::GRAPHS_BYTES_MAX)
    }
}

impl<K, V> Cache<K, V> {
    fn of(bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), bytes: 0, bytes_max }
    }
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    pub(crate) fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        self.bytes += bytes;
        self.order.push_back(key.clone());
        self.entries.insert(key, (value, bytes));
        while (self.bytes > self.bytes_max || self.order.len() > limits::GRAPHS_MAX) && self.order.len() > 1 {
            let oldest = self.order.pop_front().expect("there is more than one");
            self.drop_entry(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if self.entries.contains_key(key) {
            self.order.retain(|other| other != key);
            self.drop_entry(key);
        }
    }

    fn drop_entry(&mut self, key: &K) {
        if let Some((_, bytes)) = self.entries.remove(key) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cache: &Cache<u32, u32>) -> Vec<u32> {
        (0..10).filter(|key| cache.get(key).is_some()).collect()
    }

    #[test]
    fn the_oldest_go_when_the_bytes_are_used_up() {
        let mut cache = Cache::of(100);
        for key in 0..5 {
            cache.insert(key, key, 30);
        }
        assert_eq!(kept(&cache), [2, 3, 4]);
        cache.insert(5, 5, 80);
        assert_eq!(kept(&cache), [5]);
        cache.insert(6, 6, 20);
        assert_eq!(kept(&cache), [5, 6]);
    }

    #[test]
    fn one_that_is_too_large_is_kept_until_the_next_one_comes() {
        let mut cache = Cache::of(100);
        cache.insert(1, 1, 1000);
        assert_eq!(kept(&cache), [1]);
        cache.insert(2, 2, 1);
        assert_eq!(kept(&cache), [2]);
    }

    #[test]
    fn one_that_is_replaced_or_removed_gives_its_bytes_back() {
        let mut cache = Cache::of(100);
        cache.insert(1, 1, 60);
        cache.insert(1, 2, 60);
        cache.insert(2, 2, 40);
        assert_eq!((kept(&cache), cache.get(&1)), (vec![1, 2], Some(&2)));
        cache.remove(&1);
        cache.insert(3, 3, 60);
        assert_eq!((kept(&cache), cache.bytes), (vec![2, 3], 100));
    }

    #[test]
    fn entries_are_bounded_however_small_they_are() {
        let mut cache = Cache::of(100);
        for key in 0..2 * limits::GRAPHS_MAX {
            cache.insert(key, (), 0);
        }
        assert_eq!((cache.entries.len(), cache.order.len()), (limits::GRAPHS_MAX, limits::GRAPHS_MAX));
    }
}
