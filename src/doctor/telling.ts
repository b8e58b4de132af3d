/** An examination as a person reads it, a program reads it, and a shell reads it. */
import type { LayerReport } from './examination.ts';

export type Tone = 'good' | 'bad' | 'quiet' | 'strong';
export type Paint = (tone: Tone, text: string) => string;

const marks = { ok: ['good', '✔'], failed: ['bad', '✖'], skipped: ['quiet', '–'] } as const;
const nameWidth = 11;

/** One line for each layer, as it is done. */
export function layerLine({ layer, state, says }: LayerReport, paint: Paint): string {
  const [tone, mark] = marks[state];
  return `${paint(tone, mark)} ${layer.padEnd(nameWidth)}${state === 'skipped' ? paint('quiet', says) : says}`;
}

export const failureOf = (reports: readonly LayerReport[]): LayerReport | null =>
  reports.find(({ state }) => state === 'failed') ?? null;

/** What follows the layers: the sentence, and what to do. */
export function closingLines(reports: readonly LayerReport[], paint: Paint): string[] {
  const failure = failureOf(reports);
  if (!failure) return [paint('strong', 'Every layer that was asked is well.')];
  const { layer, title, code, remedy, owner_layer } = failure;
  // Its questions change nothing and leave nothing on record, so their correlation id would lead nowhere.
  const facts = [code, owner_layer && `owner: ${owner_layer}`].filter(Boolean);
  return [
    paint('strong', `It fails in the layer ${layer}: ${title ?? code}.`),
    ...(remedy ? [`What to do: ${remedy}`] : []),
    paint('quiet', facts.join(' · ')),
  ];
}

export const examinationJson = (server: string, reports: readonly LayerReport[], correlation_id: string) => {
  const failure = failureOf(reports);
  return { ok: failure === null, server, correlation_id, failed: failure, layers: reports };
};

const onTheWay = new Set(['dns', 'tcp', 'tls', 'ca', 'ingress', 'control_plane', 'store']);
const refusing = new Set(['credential', 'auth', 'fence', 'request']);

/** The name of the exit status, as the CLI has it for everything else. */
export function exitOf(reports: readonly LayerReport[]): 'ok' | 'failed' | 'unreachable' | 'refused' {
  const failure = failureOf(reports);
  if (!failure) return 'ok';
  if (onTheWay.has(failure.layer)) return 'unreachable';
  return refusing.has(failure.layer) ? 'refused' : 'failed';
}
