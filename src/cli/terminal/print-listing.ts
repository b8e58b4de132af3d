/** Prints a listing: a table, or one JSON document with --json. */
import type { Listing } from '../connection/pages.ts';
import type { Session } from '../connection/session.ts';
import { type Column, renderTable } from '../render/text/table.ts';
import { fitOf, printJson, printLines } from './terminal.ts';

export interface ListingView<Row> {
  columns: Column<Row>[];
  /** The text to print instead of an empty table; it may suggest the next command. */
  empty: string;
  /** `3 nodes: 2 ready, 1 failed` */
  summary?(rows: Row[]): string;
  /** Set if the command has --limit, so that a truncated list can advise to raise it. */
  has_limit?: true;
}

export function printListing<Row>(session: Session, listing: Listing<Row>, view: ListingView<Row>): void {
  const { out, err } = session.terminal;
  if (session.json) {
    printJson(out, listing);
    return;
  }
  if (listing.items.length === 0) {
    printLines(out, [view.empty]);
    return;
  }
  printLines(out, renderTable(view.columns, listing.items, fitOf(out)));
  // A program that reads the table from a pipe must find nothing after it.
  if (out.interactive && view.summary) printLines(out, ['', out.paint('quiet', view.summary(listing.items))]);
  if (!listing.truncated) return;
  const advice = view.has_limit ? 'Raise --limit to see them.' : `Only the first ${listing.items.length} are shown.`;
  printLines(err, [err.paint('warn', `There are more items. ${advice}`)]);
}

/** `3 nodes: 2 ready, 1 failed` */
export function countByStatus(noun: string, rows: { status: string }[], plural = `${noun}s`): string {
  const counts = new Map<string, number>();
  for (const { status } of rows) counts.set(status, (counts.get(status) ?? 0) + 1);
  const parts = [...counts].sort(([, a], [, b]) => b - a).map(([status, n]) => `${n} ${status}`);
  return `${rows.length} ${rows.length === 1 ? noun : plural}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`;
}
