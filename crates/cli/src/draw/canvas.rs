//! A sheet of character cells: boxes, lines that know their joints, and words.

use crate::draw::words::cells;

/// The directions in which a line leaves a cell.
pub(super) const UP: u8 = 1;
pub(super) const DOWN: u8 = 2;
pub(super) const LEFT: u8 = 4;
pub(super) const RIGHT: u8 = 8;

/// The line characters, by the sum of their directions. Corners are round, to tell lines from boxes.
const LINES: [char; 16] = [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];

#[derive(Clone, Copy, Default)]
struct Cell {
    /// What is written there, over any line.
    ink: Option<char>,
    /// Whether the character to the left reaches into this cell.
    covered: bool,
    directions: u8,
    /// Whether lines meet here; where they don't, the one from above passes over the other.
    joint: bool,
}

/// A sheet that is written on in any order.
pub(super) struct Canvas {
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    /// An empty sheet.
    pub(super) fn new(width: usize, height: usize) -> Canvas {
        Canvas { rows: vec![vec![Cell::default(); width]; height] }
    }

    /// Writes a text; what does not fit on the sheet is lost.
    pub(super) fn write(&mut self, mut x: usize, y: usize, text: &str) {
        for c in text.chars() {
            if let Some(cell) = self.cell(x, y) {
                *cell = Cell { ink: Some(c), ..Cell::default() };
            }
            for covered in x + 1..x + cells(c) {
                if let Some(cell) = self.cell(covered, y) {
                    *cell = Cell { covered: true, ..Cell::default() };
                }
            }
            x += cells(c);
        }
    }

    /// A box from its upper left corner.
    pub(super) fn frame(&mut self, x: usize, y: usize, width: usize, height: usize) {
        let edge = "─".repeat(width - 2);
        self.write(x, y, &format!("┌{edge}┐"));
        for row in y + 1..y + height - 1 {
            self.write(x, row, "│");
            self.write(x + width - 1, row, "│");
        }
        self.write(x, y + height - 1, &format!("└{edge}┘"));
    }

    /// Lets a line begin at the lower edge of a box; the bend of a line has no such edge and stays.
    pub(super) fn leave(&mut self, x: usize, y: usize) {
        if let Some(cell) = self.cell(x, y).filter(|cell| cell.ink == Some('─')) {
            cell.ink = Some('┬');
        }
    }

    /// A line from top to bottom over the rows.
    pub(super) fn fall(&mut self, x: usize, rows: std::ops::Range<usize>) {
        for y in rows {
            self.line(x, y, UP | DOWN, false);
        }
    }

    /// A piece of line; a joint connects with all lines through the cell.
    pub(super) fn line(&mut self, x: usize, y: usize, directions: u8, joint: bool) {
        if let Some(cell) = self.cell(x, y) {
            cell.directions |= directions;
            cell.joint |= joint;
        }
    }

    /// The sheet as lines of text, without blanks at their ends.
    pub(super) fn print(&self) -> String {
        let mut page = String::new();
        for row in &self.rows {
            let line: String = row.iter().filter(|cell| !cell.covered).map(Cell::shown).collect();
            page += line.trim_end();
            page.push('\n');
        }
        page
    }

    fn cell(&mut self, x: usize, y: usize) -> Option<&mut Cell> {
        self.rows.get_mut(y)?.get_mut(x)
    }
}

impl Cell {
    fn shown(&self) -> char {
        let crosses = self.directions & (UP | DOWN) != 0 && !self.joint;
        let directions = if crosses { UP | DOWN } else { self.directions };
        self.ink.unwrap_or(LINES[usize::from(directions)])
    }
}
