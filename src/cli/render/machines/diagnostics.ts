/** What was collected of a machine, for somebody who wants to know what went on there. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { Operation } from '../../../contract/operation.ts';
import { type Diagnostics, readDiagnostics, sizeWords } from '../../../lifecycle/findings/diagnostics.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { elapsed, momentAndDistance } from '../text/duration.ts';
import { type Column, renderFacts, renderTable } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';

export interface KnownOfMachine {
  node_id: string;
  /** Of the last time that it was collected. */
  collected: Evidence[];
  /** The last time that somebody asked whether it lives. */
  probe: Operation | null;
}

const indent = '  ';

const processColumns: Column<Diagnostics['processes'][number]>[] = [
  { title: 'PID', value: ({ pid }) => String(pid), align: 'right' },
  { title: 'STATE', value: ({ state }) => printable(state), drop: 5 },
  {
    title: 'MEMORY',
    value: ({ rss_bytes }) => (rss_bytes === null ? '' : sizeWords(rss_bytes)),
    align: 'right',
    drop: 6,
  },
  { title: 'COMMAND', value: ({ command }) => printable(command), shrinks_to: 20 },
];

const stageColumns: Column<Diagnostics['boot_stages'][number]>[] = [
  { title: 'BOOT STAGE', value: ({ name }) => printable(name) },
  { title: 'TOOK', value: ({ seconds }) => (seconds === null ? '' : elapsed(seconds)), align: 'right' },
];

/** Text as it came, the last of it, one below the other. */
const lastLines = (all: string[], most: number, { paint }: ClosingContext): string[] => [
  ...(all.length > most ? [paint('quiet', `${indent}… ${all.length - most} earlier; --lines shows more`)] : []),
  ...all.slice(-most).map((line) => indent + printable(line)),
];

const under = (title: string, lines: string[], { paint }: ClosingContext) =>
  lines.length > 0 ? ['', paint('strong', title), ...lines] : [];

const table = <Row>(columns: Column<Row>[], rows: Row[], context: ClosingContext) =>
  rows.length > 0 ? renderTable(columns, rows, context) : [];

function factLines(fact: Evidence, most: number, context: ClosingContext): string[] {
  const { host, processes, boot_stages, lines, attachments } = readDiagnostics(fact.data);
  const isMissing = fact.kind === 'evidence.missing';
  const who = fact.layer === 'provider' ? 'Its provider' : 'Its agent';
  return [
    '',
    ...wrap(isMissing ? printable(fact.summary) : `${who}: ${printable(fact.summary)}`, context.width).map((line) =>
      context.paint(isMissing ? 'warn' : 'strong', line),
    ),
    ...renderFacts(
      [
        ['at', momentAndDistance(fact.at, context.nowMs)],
        ['host', host && printable(host.name)],
        ['up for', host && elapsed(host.uptime_seconds)],
        ['load', host?.load_average.map((each) => each.toFixed(2)).join(' ')],
      ],
      context,
    ),
    ...under('What runs', table(processColumns, processes, context), context),
    ...under('How it booted', table(stageColumns, boot_stages, context), context),
    ...under(
      'Its last lines',
      lastLines(
        lines.map(({ stream, line }) => `${stream}  ${line}`),
        most,
        context,
      ),
      context,
    ),
    ...attachments.flatMap(({ name, text }) =>
      under(printable(name), lastLines(text.trimEnd().split('\n'), most, context), context),
    ),
  ];
}

function probeLines(probe: Operation | null, context: ClosingContext): string[] {
  if (!probe) return renderFacts([['last probe', 'nobody has asked it by hand']], context);
  const says = probe.error?.message ?? probe.progress.message;
  return renderFacts(
    [
      ['last probe', printable(says || probe.status)],
      ['asked', momentAndDistance(probe.created_at, context.nowMs)],
    ],
    context,
  );
}

export function diagnosticsLines(
  { node_id, collected, probe }: KnownOfMachine,
  most: number,
  context: ClosingContext,
): string[] {
  const { paint, commandLine } = context;
  const again = (action: string) => commandLine('act', node_id, action, '--reason', '"…"');
  return [
    paint('strong', node_id),
    ...probeLines(probe, context),
    ...(collected.length > 0
      ? collected.flatMap((fact) => factLines(fact, most, context))
      : ['', 'Nothing was collected of it yet.']),
    '',
    ...hintLines(
      [
        ['Collect anew', again('collect-diagnostics')],
        ['Ask whether it lives', again('probe')],
      ],
      paint,
    ),
  ];
}
