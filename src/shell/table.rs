//! A table with aligned columns, for people.

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self { columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// The whole table. A column with nothing in any row is left out.
    #[must_use]
    pub fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let widest = self.rows.iter().map(|row| width(&row[column])).max().unwrap_or(0);
                if widest == 0 { 0 } else { widest.max(width(&self.columns[column].0)) }
            })
            .collect();
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, (_, align)), wide) in row.iter().zip(&self.columns).zip(&widths) {
                if *wide == 0 {
                    continue;
                }
                let gap = " ".repeat(wide - width(cell).min(*wide));
                match align {
                    Align::Left => line.extend(["  ", cell.as_str(), gap.as_str()]),
                    Align::Right => line.extend(["  ", gap.as_str(), cell.as_str()]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Columns on a terminal, near enough: names and units have no wide characters.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_empty_ones_vanish() {
        let mut table = Table::new(&[("name", Align::Left), ("flags", Align::Left), ("time", Align::Right)]);
        table.row(["a".to_owned(), String::new(), "12 µs".to_owned()]);
        table.row(["longer".to_owned(), String::new(), "3 µs".to_owned()]);
        assert_eq!(table.render(), "  name     time\n  a       12 µs\n  longer   3 µs\n");
    }
}
