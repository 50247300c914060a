//! The live part of the terminal: a line for each running stage, the newest log line of long ones, and the
//! state of the whole run. Its lines never wrap, and it has fewer rows than the terminal.

use std::time::{Duration, Instant};

use super::stage_tree::{RunningStage, StageTree};
use super::styled::Styled;
use super::text::{self, Color};
use base::events::StageId;

/// The minimum number of columns for a progress bar.
const MIN_BAR_COLUMNS: usize = 72;
/// The minimum number of columns for a long progress bar.
const MIN_LONG_BAR_COLUMNS: usize = 110;
/// The minimum width of a name.
const MIN_NAME_COLUMNS: usize = 16;
/// The age from which a stage shows its log and its usual duration. A usual duration of at least this is
/// shown at once.
const MIN_DETAILED_DURATION: Duration = Duration::from_secs(1);
/// The number of milliseconds per frame of the spinner.
const SPINNER_FRAME_MS: u128 = 100;

/// The terminal to draw on.
#[derive(Debug, Clone, Copy)]
pub(super) struct TerminalSpace {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) shows_colors: bool,
    pub(super) shows_unicode: bool,
}

/// The current step of the plan.
#[derive(Debug, Clone)]
pub(super) struct CurrentStep {
    pub(super) number: usize,
    pub(super) count: usize,
    pub(super) description: String,
}

/// Returns the lines of the live part.
pub(super) fn lines(
    tree: &StageTree,
    step: Option<&CurrentStep>,
    space: TerminalSpace,
    now: Instant,
) -> Vec<String> {
    let parents: Vec<StageId> = tree.stages().filter_map(|(_, stage)| stage.parent).collect();
    // The outermost stage is the last line, below its children.
    let outermost_stage = tree.stages().find(|(_, stage)| stage.depth == 0 && stage.has_children);
    let innermost_stages: Vec<&RunningStage> = tree
        .stages()
        .filter(|(id, _)| {
            !parents.contains(id) && outermost_stage.is_none_or(|(outermost_stage, _)| *id != outermost_stage)
        })
        .map(|(_, stage)| stage)
        .collect();
    let run_line = outermost_stage.map(|(_, stage)| space.run_line(stage, step, now));

    // The last row stays free for the cursor.
    let room = space.rows.saturating_sub(1).max(1).saturating_sub(usize::from(run_line.is_some()));
    let row_count_with_logs = innermost_stages
        .iter()
        .map(|stage| 1 + usize::from(shown_log_line(stage, now).is_some()))
        .sum::<usize>();
    let mut lines = Vec::new();
    for (index, stage) in innermost_stages.iter().enumerate() {
        let hidden_count = innermost_stages.len() - index;
        if lines.len() + 1 >= room && hidden_count > 1 {
            lines.push(Styled::plain(format!("  ({hidden_count} more)")));
            break;
        }
        lines.push(space.stage_line(stage, now));
        if row_count_with_logs <= room
            && let Some(log_line) = shown_log_line(stage, now)
        {
            let indent = " ".repeat(2 * stage.depth + 4);
            lines.push(Styled::plain(indent).colored(Color::Dim, format!("| {log_line}")));
        }
    }
    lines.truncate(room);
    lines.extend(run_line);
    lines.iter().map(|line| line.cut(space.usable_columns(), space.shows_colors, space.ellipsis())).collect()
}

fn shown_log_line(stage: &RunningStage, now: Instant) -> Option<&str> {
    let is_old = now.duration_since(stage.start) >= MIN_DETAILED_DURATION;
    stage.last_log_line.as_deref().filter(|line| is_old && !line.trim().is_empty())
}

impl TerminalSpace {
    fn is_wide(self) -> bool {
        self.columns >= MIN_BAR_COLUMNS
    }

    fn spinner(self, stage: &RunningStage, now: Instant) -> Styled {
        let signs: Vec<char> = if self.shows_unicode { "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" } else { "|/-\\" }.chars().collect();
        let turn = now.duration_since(stage.start).as_millis() / SPINNER_FRAME_MS % signs.len() as u128;
        let sign = usize::try_from(turn).ok().and_then(|turn| signs.get(turn)).copied().unwrap_or(' ');
        Styled::default().colored(Color::Cyan, sign.to_string())
    }

    /// Returns the elapsed time. On narrow terminals, adds the usual duration.
    fn clock(self, stage: &RunningStage, now: Instant) -> String {
        let elapsed = text::clock(now.duration_since(stage.start));
        match visible_usual_duration(stage, now).filter(|_| !self.is_wide()) {
            Some(usual_duration) => format!(" {elapsed}/{} ", text::clock(usual_duration)),
            None => format!(" {elapsed:>5} "),
        }
    }

    /// Returns the usual duration, only on wide terminals.
    fn usual_duration(self, stage: &RunningStage, now: Instant) -> Styled {
        match visible_usual_duration(stage, now).filter(|_| self.is_wide()) {
            Some(usual_duration) => Styled::default()
                .colored(Color::Dim, format!("  usually {}", base::text::format_duration(usual_duration))),
            None => Styled::default(),
        }
    }

    /// Returns a name between the parts before and after it, shortened to make room for `details`.
    fn with_fitted_name(self, line_start: Styled, name: &str, details: Styled) -> Styled {
        let room =
            self.usable_columns().saturating_sub(line_start.width() + details.width()).max(MIN_NAME_COLUMNS);
        let name = Styled::plain(name).cut(room, false, self.ellipsis());
        line_start.and(name).and_line(details)
    }

    /// Returns the number of usable columns. A terminal may wrap after its last column.
    fn usable_columns(self) -> usize {
        self.columns.saturating_sub(1).max(1)
    }

    fn ellipsis(self) -> &'static str {
        if self.shows_unicode { "…" } else { "..." }
    }

    fn bar(self, amount_done: u64, total: u64) -> Styled {
        let cells = if self.columns >= MIN_LONG_BAR_COLUMNS { 20_usize } else { 10 };
        let full_cells =
            usize::try_from(cells as u128 * u128::from(amount_done) / u128::from(total)).unwrap_or(cells);
        let (full, rest) = if self.shows_unicode { ("━", "─") } else { ("=", "-") };
        Styled::plain(full.repeat(full_cells)).colored(Color::Dim, rest.repeat(cells - full_cells)).and(" ")
    }

    /// Returns the line of a stage: the first of its forms that has room for the whole name, or the last one.
    /// The time comes first, so that a narrow terminal cuts the details.
    fn stage_line(self, stage: &RunningStage, now: Instant) -> Styled {
        let line_start = Styled::plain("  ".repeat(stage.depth)).and_line(self.spinner(stage, now));
        let line_start = line_start.and(self.clock(stage, now));
        let detail = |text: Option<String>| {
            text.map_or_else(Styled::default, |text| Styled::plain(format!("  {text}")))
        };
        let (amount, usual_duration) = (detail(stage.amount(now)), self.usual_duration(stage, now));
        let all_details = amount.clone().and_line(usual_duration);
        let forms = match stage.done_and_total() {
            Some((amount_done, total)) => {
                let percent = u128::from(amount_done) * 100 / u128::from(total);
                let percent = line_start.clone().and(format!("{percent:>3}% "));
                match self.is_wide() {
                    true => vec![
                        (line_start.and_line(self.bar(amount_done, total)), all_details),
                        (percent.clone(), amount),
                        (percent, detail(stage.rate_text(now))),
                    ],
                    false => vec![(percent, Styled::default())],
                }
            }
            None => vec![(line_start, all_details)],
        };
        let room = self.usable_columns().saturating_sub(Styled::plain(stage.name.as_str()).width());
        let has_room =
            |(line_start, details): &&(Styled, Styled)| line_start.width() + details.width() <= room;
        let form = forms.iter().find(has_room).or(forms.last()).cloned().unwrap_or_default();
        self.with_fitted_name(form.0, &stage.name, form.1)
    }

    /// Returns the line of the whole run.
    fn run_line(self, stage: &RunningStage, step: Option<&CurrentStep>, now: Instant) -> Styled {
        let line_start = self.spinner(stage, now).and(self.clock(stage, now));
        let line_start = line_start.colored(Color::Bold, stage.name.as_str());
        let step = step
            .map(|CurrentStep { number, count, description }| format!(" {number}/{count}: {description}"));
        self.with_fitted_name(line_start, &step.unwrap_or_default(), self.usual_duration(stage, now))
    }
}

fn visible_usual_duration(stage: &RunningStage, now: Instant) -> Option<Duration> {
    stage.usual_duration.filter(|usual_duration| {
        *usual_duration >= MIN_DETAILED_DURATION || now.duration_since(stage.start) >= MIN_DETAILED_DURATION
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::events::Unit;
    use unicode_width::UnicodeWidthStr;

    /// Returns a deploy with an upload and two running compilations.
    fn tree(now: Instant) -> StageTree {
        let mut tree = StageTree::default();
        let minute = Duration::from_secs(60);
        tree.start(1, None, "Deploying", Some(4 * minute));
        tree.start(2, Some(1), "Uploading package 'golang/0123456789ab'", None);
        tree.start(3, Some(1), "Compiling package 'ruby/0123456789ab'", Some(5 * minute));
        tree.start(4, Some(1), "Compiling package '日本語/0123456789ab'", None);
        for (id, seconds) in [(1, 83), (2, 10), (3, 42), (4, 3725)] {
            let stage = tree.get_mut(id).unwrap();
            stage.start = now - Duration::from_secs(seconds);
            match id {
                2 => {
                    stage.advance(0, Some(40 << 20), Unit::Bytes, now - Duration::from_secs(4));
                    stage.advance(12 << 20, Some(40 << 20), Unit::Bytes, now);
                }
                3 => {
                    stage.last_log_line =
                        Some("make[2]: Entering directory '/var/vcap/data/compile/ruby'".to_owned())
                }
                _ => {}
            }
        }
        tree
    }

    fn frame_text(columns: usize, rows: usize, shows_unicode: bool) -> String {
        let step = CurrentStep {
            number: 5,
            count: 6,
            description: "Bring the jobs of 'hello/0' to the VM".to_owned(),
        };
        let now = Instant::now();
        let space = TerminalSpace { columns, rows, shows_colors: false, shows_unicode };
        let lines = lines(&tree(now), Some(&step), space, now);
        assert!(lines.len() < rows, "{lines:?}");
        assert!(lines.iter().all(|line| line.width() < columns), "{lines:?}");
        lines.join("\n")
    }

    #[test]
    fn wide_terminals_show_everything() {
        insta::assert_snapshot!(frame_text(132, 24, true), @r"
          ⠋  0:10 ━━━━━━────────────── Uploading package 'golang/0123456789ab'  12.0 MiB of 40.0 MiB, 3.0 MiB/s
          ⠋  0:42 Compiling package 'ruby/0123456789ab'  usually 5 min 00 s
              | make[2]: Entering directory '/var/vcap/data/compile/ruby'
          ⠋ 1:02:05 Compiling package '日本語/0123456789ab'
        ⠋  1:23 Deploying 5/6: Bring the jobs of 'hello/0' to the VM  usually 4 min 00 s
        ");
        insta::assert_snapshot!(frame_text(80, 24, true), @r"
          ⠋  0:10  30% Uploading package 'golang/0123456789ab'  3.0 MiB/s
          ⠋  0:42 Compiling package 'ruby/0123456789ab'  usually 5 min 00 s
              | make[2]: Entering directory '/var/vcap/data/compile/ruby'
          ⠋ 1:02:05 Compiling package '日本語/0123456789ab'
        ⠋  1:23 Deploying 5/6: Bring the jobs of 'hello/0' to the …  usually 4 min 00 s
        ");
    }

    #[test]
    fn narrow_terminals_drop_the_least_important_parts() {
        insta::assert_snapshot!(frame_text(40, 24, true), @r"
          ⠋  0:10  30% Uploading package 'gola…
          ⠋ 0:42/5:00 Compiling package 'ruby/…
              | make[2]: Entering directory '/…
          ⠋ 1:02:05 Compiling package '日本語/…
        ⠋ 1:23/4:00 Deploying 5/6: Bring the j…
        ");
        insta::assert_snapshot!(frame_text(40, 24, false), @r"
          |  0:10  30% Uploading package 'go...
          | 0:42/5:00 Compiling package 'rub...
              | make[2]: Entering directory ...
          - 1:02:05 Compiling package '日本...
        - 1:23/4:00 Deploying 5/6: Bring the...
        ");
    }

    #[test]
    fn short_terminals_drop_logs_then_stages() {
        insta::assert_snapshot!(frame_text(40, 5, true), @r"
          ⠋  0:10  30% Uploading package 'gola…
          ⠋ 0:42/5:00 Compiling package 'ruby/…
          ⠋ 1:02:05 Compiling package '日本語/…
        ⠋ 1:23/4:00 Deploying 5/6: Bring the j…
        ");
        insta::assert_snapshot!(frame_text(40, 4, true), @r"
          ⠋  0:10  30% Uploading package 'gola…
          (2 more)
        ⠋ 1:23/4:00 Deploying 5/6: Bring the j…
        ");
        for rows in 2..8 {
            for columns in 2..50 {
                frame_text(columns, rows, true);
            }
        }
    }
}
