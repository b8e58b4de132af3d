/** Computes the progress of a pull from the engine's events about layers. Pure. */
import type { ProgressPart } from '../../contract/progress.ts';
import type { PullEvent } from './engine.ts';

interface Layer {
  status: string;
  current: number;
  total: number;
  done: boolean;
}

export interface PullProgress {
  onEvent(event: PullEvent): void;
  message(): string;
  parts(): ProgressPart[];
}

const isDone = (status: string) => /^(pull complete|already exists|download complete|skipped)/i.test(status);
const isLayer = (event: PullEvent): event is PullEvent & { layer: string } =>
  event.layer !== null && !/^pulling from/i.test(event.status);

const max_parts = 12;

export function pullProgress(image: string): PullProgress {
  const layers = new Map<string, Layer>();
  const sum = (of: (layer: Layer) => number) => [...layers.values()].reduce((total, layer) => total + of(layer), 0);
  return {
    onEvent(event) {
      if (!isLayer(event)) return;
      const before = layers.get(event.layer) ?? { status: '', current: 0, total: 0, done: false };
      const total = event.total ?? before.total;
      const done = before.done || isDone(event.status);
      // Unpacking counts bytes from zero again; progress must not go back.
      const current = done ? total : Math.max(before.current, event.current ?? 0);
      layers.set(event.layer, { status: event.status, current, total, done });
    },
    message() {
      if (layers.size === 0) return `pulling image ${image}`;
      const total = sum((layer) => layer.total);
      const percent =
        total > 0 ? `, ${Math.floor((100 * sum((layer) => Math.min(layer.current, layer.total))) / total)} %` : '';
      return `pulling image ${image}: ${sum((layer) => Number(layer.done))} of ${layers.size} layers${percent}`;
    },
    parts: () =>
      [...layers].slice(0, max_parts).map(([name, { status, done, current, total }]) => ({
        name,
        kind: 'layer',
        state: status || 'waiting',
        tone: done ? 'ok' : 'busy',
        ...(total > 0 && { detail: `${Math.floor((100 * Math.min(current, total)) / total)} %` }),
      })),
  };
}
