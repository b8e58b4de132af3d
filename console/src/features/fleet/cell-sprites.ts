/**
 * Draws the look of a cell once per status, mark and size, and copies it from then on. In cells
 * large enough, every status has its own icon and every mark its own shape, so colour is not the
 * only difference.
 */
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { lookOf, nodeLooks } from '../../ui/status/status-looks.ts';

export type CellMark = 'held' | 'stuck' | 'overdue' | null;

export interface CellSize {
  /** Distance between cells. */
  pitch: number;
  side: number;
}

/** The icon of each status, as a path in a unit square. */
const strokes: Record<NodeStatus, string> = {
  provisioning: 'M.5 .74V.28M.32 .46L.5 .28L.68 .46',
  starting: 'M.38 .28L.7 .5L.38 .72Z',
  ready: 'M.28 .52L.44 .68L.74 .36',
  degraded: 'M.5 .24L.78 .74H.22ZM.5 .44V.6',
  offline: 'M.5 .24V.48M.36 .34L.27 .5L.34 .68L.5 .76L.66 .68L.73 .5L.64 .34',
  failed: 'M.28 .28L.72 .72M.72 .28L.28 .72',
  draining: 'M.5 .24V.62M.34 .46L.5 .62L.66 .46M.28 .76H.72',
  cleaning: 'M.26 .34H.74M.34 .34L.38 .76H.62L.66 .34M.44 .26H.56',
  quarantined: 'M.28 .48H.72V.76H.28ZM.38 .48V.3H.62V.48',
  retired: 'M.3 .5H.7',
};

const movingStatuses: ReadonlySet<NodeStatus> = new Set(['provisioning', 'starting', 'draining', 'cleaning']);
/** Small cells draw no icon for these statuses. */
const statusesWithoutSmallIcon: ReadonlySet<NodeStatus> = new Set(['ready', 'retired']);
const smallPx = 14;

/** The more cells a group has, the smaller they are. */
const sizes: { upTo: number; side: number; gap: number }[] = [
  { upTo: 600, side: 30, gap: 5 },
  { upTo: 3000, side: 18, gap: 3 },
  { upTo: 15_000, side: 11, gap: 2 },
  { upTo: Number.POSITIVE_INFINITY, side: 7, gap: 1 },
];

export function cellSize(cells: number): CellSize {
  const { side, gap } = sizes.find(({ upTo }) => cells <= upTo) ?? { side: 7, gap: 1 };
  return { side, pitch: side + gap };
}

const markLooks: Record<Exclude<CellMark, null>, { tone: string; round: boolean }> = {
  held: { tone: 'held', round: false },
  stuck: { tone: 'bad', round: false },
  overdue: { tone: 'bad', round: true },
};

export class CellSprites {
  readonly #sprites = new Map<string, HTMLCanvasElement>();
  readonly #styles: CSSStyleDeclaration;
  readonly #size: CellSize;
  readonly #ratio: number;

  /** The colours come from the computed style of `root`. */
  constructor(root: Element, size: CellSize, ratio: number) {
    this.#styles = getComputedStyle(root);
    this.#size = size;
    this.#ratio = ratio;
  }

  spriteFor(status: NodeStatus, mark: CellMark): HTMLCanvasElement {
    const key = `${status} ${mark}`;
    const cached = this.#sprites.get(key);
    if (cached) return cached;
    const sprite = this.#draw(status, mark);
    this.#sprites.set(key, sprite);
    return sprite;
  }

  #colour(name: string): string {
    return this.#styles.getPropertyValue(name).trim();
  }

  #draw(status: NodeStatus, mark: CellMark): HTMLCanvasElement {
    const { side, pitch } = this.#size;
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = Math.ceil(pitch * this.#ratio);
    const pen = canvas.getContext('2d');
    if (!pen) return canvas;
    pen.scale(this.#ratio, this.#ratio);
    const { tone, isSolid = false } = lookOf(nodeLooks, status);
    const inset = (pitch - side) / 2;
    const radius = side >= smallPx ? side / 5 : 1;
    pen.beginPath();
    pen.roundRect(inset, inset, side, side, radius);
    pen.fillStyle = this.#colour(
      status === 'retired' ? '--surface-sunken' : `--tone-${tone}-${isSolid ? 'solid' : 'bg'}`,
    );
    pen.fill();
    if (movingStatuses.has(status) || status === 'retired') {
      pen.strokeStyle = this.#colour(status === 'retired' ? '--line-strong' : `--tone-${tone}-solid`);
      pen.lineWidth = side >= smallPx ? 1.25 : 0.75;
      pen.stroke();
    }
    if (side >= smallPx || !statusesWithoutSmallIcon.has(status)) this.#strokes(pen, status, isSolid, inset);
    if (mark) this.#mark(pen, mark);
    return canvas;
  }

  #strokes(pen: CanvasRenderingContext2D, status: NodeStatus, isSolid: boolean, inset: number): void {
    const { side } = this.#size;
    pen.strokeStyle = this.#colour(`--tone-${lookOf(nodeLooks, status).tone}-${isSolid ? 'on' : 'fg'}`);
    pen.lineWidth = Math.max(0.9 / side, 1 / 17);
    pen.lineCap = 'round';
    pen.lineJoin = 'round';
    pen.save();
    pen.translate(inset, inset);
    pen.scale(side, side);
    pen.stroke(new Path2D(strokes[status]));
    pen.restore();
  }

  /** Draws the mark in the upper right corner, with a ring that separates it from the cell. */
  #mark(pen: CanvasRenderingContext2D, mark: Exclude<CellMark, null>): void {
    const { side, pitch } = this.#size;
    const { tone, round } = markLooks[mark];
    const diameter = Math.max(3.5, side * 0.32);
    const ring = side >= smallPx ? 1.75 : 0.75;
    const shape = (margin: number) => {
      const width = diameter + 2 * margin;
      pen.beginPath();
      pen.roundRect(pitch - diameter - margin, -margin, width, width, round ? width / 2 : width / 8);
      pen.fill();
    };
    pen.fillStyle = this.#colour('--surface-card');
    shape(ring);
    pen.fillStyle = this.#colour(`--tone-${tone}-solid`);
    shape(0);
    if (mark !== 'stuck' || side < smallPx) return;
    pen.fillStyle = this.#colour(`--tone-${tone}-on`);
    pen.fillRect(pitch - diameter / 2 - 0.8, diameter * 0.2, 1.6, diameter * 0.35);
    pen.fillRect(pitch - diameter / 2 - 0.8, diameter * 0.66, 1.6, 1.6);
  }
}
