/** Renders the diagnostics collected from a machine. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { Operation } from '../../../contract/operation.ts';
import { type Diagnostics, formatSize, readDiagnostics } from '../../../lifecycle/findings/diagnostics.ts';
import { formatElapsed, formatMoment } from '../text/duration.ts';
import { hintLines, type RenderContext } from '../text/hints.ts';
import { type Column, renderFacts, renderTable } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';

export interface NodeDiagnostics {
  node_id: string;
  /** The facts of the last collection. */
  collected: Evidence[];
  /** The last probe by a person. */
  probe: Operation | null;
}

const indent = '  ';

const processColumns: Column<Diagnostics['processes'][number]>[] = [
  { title: 'PID', value: ({ pid }) => String(pid), align: 'right' },
  { title: 'STATE', value: ({ state }) => printable(state), drop: 5 },
  {
    title: 'MEMORY',
    value: ({ rss_bytes }) => (rss_bytes === null ? '' : formatSize(rss_bytes)),
    align: 'right',
    drop: 6,
  },
  { title: 'COMMAND', value: ({ command }) => printable(command), shrinks_to: 20 },
];

const stageColumns: Column<Diagnostics['boot_stages'][number]>[] = [
  { title: 'BOOT STAGE', value: ({ name }) => printable(name) },
  { title: 'TOOK', value: ({ seconds }) => (seconds === null ? '' : formatElapsed(seconds)), align: 'right' },
];

const lastLines = (all: string[], maxLines: number, { paint }: RenderContext): string[] => [
  ...(all.length > maxLines ? [paint('quiet', `${indent}… ${all.length - maxLines} earlier; --lines shows more`)] : []),
  ...all.slice(-maxLines).map((line) => indent + printable(line)),
];

const titledSection = (title: string, lines: string[], { paint }: RenderContext) =>
  lines.length > 0 ? ['', paint('strong', title), ...lines] : [];

const tableLines = <Row>(columns: Column<Row>[], rows: Row[], context: RenderContext) =>
  rows.length > 0 ? renderTable(columns, rows, context) : [];

function factLines(fact: Evidence, maxLines: number, context: RenderContext): string[] {
  const { host, processes, boot_stages, lines, attachments } = readDiagnostics(fact.data);
  const isMissing = fact.kind === 'evidence.missing';
  const source = fact.layer === 'provider' ? 'Its provider' : 'Its agent';
  return [
    '',
    ...wrap(isMissing ? printable(fact.summary) : `${source}: ${printable(fact.summary)}`, context.width).map((line) =>
      context.paint(isMissing ? 'warn' : 'strong', line),
    ),
    ...renderFacts(
      [
        ['at', formatMoment(fact.at, context.nowMs)],
        ['host', host && printable(host.name)],
        ['up for', host && formatElapsed(host.uptime_seconds)],
        ['load', host?.load_average.map((each) => each.toFixed(2)).join(' ')],
      ],
      context,
    ),
    ...titledSection('Processes', tableLines(processColumns, processes, context), context),
    ...titledSection('Boot stages', tableLines(stageColumns, boot_stages, context), context),
    ...titledSection(
      'Last lines',
      lastLines(
        lines.map(({ stream, line }) => `${stream}  ${line}`),
        maxLines,
        context,
      ),
      context,
    ),
    ...attachments.flatMap(({ name, text }) =>
      titledSection(printable(name), lastLines(text.trimEnd().split('\n'), maxLines, context), context),
    ),
  ];
}

function probeLines(probe: Operation | null, context: RenderContext): string[] {
  if (!probe) return renderFacts([['last probe', 'never']], context);
  const message = probe.error?.message ?? probe.progress.message;
  return renderFacts(
    [
      ['last probe', printable(message || probe.status)],
      ['probed', formatMoment(probe.created_at, context.nowMs)],
    ],
    context,
  );
}

export function diagnosticsLines(
  { node_id, collected, probe }: NodeDiagnostics,
  maxLines: number,
  context: RenderContext,
): string[] {
  const { paint, commandLine } = context;
  const actCommand = (action: string) => commandLine('act', node_id, action, '--reason', '"…"');
  return [
    paint('strong', node_id),
    ...probeLines(probe, context),
    ...(collected.length > 0
      ? collected.flatMap((fact) => factLines(fact, maxLines, context))
      : ['', 'Nothing was collected yet.']),
    '',
    ...hintLines(
      [
        ['Collect again', actCommand('collect-diagnostics')],
        ['Probe the machine', actCommand('probe')],
      ],
      paint,
    ),
  ];
}
