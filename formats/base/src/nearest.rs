//! Spelling suggestions: the candidate closest to a misspelled word.

/// Returns the closest candidate, or `None` if no candidate is near. A candidate is near if its edit distance is at most two fifths
/// of its length: two edits in five letters. For a candidate with fewer than three letters, the length counts as three, so one edit
/// is allowed.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_near = |candidate: &&str| edit_distance(candidate, word) * 5 <= candidate.chars().count().max(3) * 2;
    candidates.into_iter().filter(is_near).min_by_key(|candidate| edit_distance(candidate, word))
}

/// Returns `; did you mean 'X'?` for the nearest candidate X, or an empty text if no candidate is near.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"))
}

/// Returns the Levenshtein distance of two words. Only the first 200 characters of `b` count, which limits the time for a long
/// word.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().take(200).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let words = ["load_view", "store_view", "addf", "for"];
        let suggested = ["laod_view", "load_veiw", "storeview", "add", "far", "nothing", "x"].map(|word| nearest(word, words));
        let expected = [Some("load_view"), Some("load_view"), Some("store_view"), Some("addf"), Some("for"), None, None];
        assert_eq!(suggested, expected);
        assert_eq!(did_you_mean("loadview", words), "; did you mean 'load_view'?");
        assert_eq!((edit_distance("", "abc"), edit_distance("abc", "abc"), edit_distance("kitten", "sitting")), (3, 0, 3));
    }
}
