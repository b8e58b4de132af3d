/** Renders an examination as text for people, JSON for programs, and an exit status for shells. */
import type { LayerReport } from './examination.ts';

export type Tone = 'good' | 'bad' | 'quiet' | 'strong';
export type Paint = (tone: Tone, text: string) => string;

const marks = { ok: ['good', '✔'], failed: ['bad', '✖'], skipped: ['quiet', '–'] } as const;
const nameWidth = 11;

/** Renders one layer. The caller prints the line as soon as the layer is done. */
export function layerLine({ layer, state, says }: LayerReport, paint: Paint): string {
  const [tone, mark] = marks[state];
  return `${paint(tone, mark)} ${layer.padEnd(nameWidth)}${state === 'skipped' ? paint('quiet', says) : says}`;
}

export const failureOf = (reports: readonly LayerReport[]): LayerReport | null =>
  reports.find(({ state }) => state === 'failed') ?? null;

/** Renders the lines after the layers: the result, and what to do. */
export function closingLines(reports: readonly LayerReport[], paint: Paint): string[] {
  const failure = failureOf(reports);
  if (!failure) return [paint('strong', 'Every examined layer works.')];
  const { layer, title, code, remedy, owner_layer } = failure;
  // The correlation id is left out, because an examination leaves no record to find with it.
  const facts = [code, owner_layer && `owner: ${owner_layer}`].filter(Boolean);
  return [
    paint('strong', `The layer ${layer} fails: ${title ?? code}.`),
    ...(remedy ? [`What to do: ${remedy}`] : []),
    paint('quiet', facts.join(' · ')),
  ];
}

export const examinationJson = (server: string, reports: readonly LayerReport[], correlation_id: string) => {
  const failure = failureOf(reports);
  return { ok: failure === null, server, correlation_id, failed: failure, layers: reports };
};

const pathLayers = new Set(['dns', 'tcp', 'tls', 'ca', 'ingress', 'control_plane', 'store']);
const refusingLayers = new Set(['credential', 'auth', 'fence', 'request']);

/** Returns the name of the exit status, as all CLI commands use it. */
export function exitOf(reports: readonly LayerReport[]): 'ok' | 'failed' | 'unreachable' | 'refused' {
  const failure = failureOf(reports);
  if (!failure) return 'ok';
  if (pathLayers.has(failure.layer)) return 'unreachable';
  return refusingLayers.has(failure.layer) ? 'refused' : 'failed';
}
