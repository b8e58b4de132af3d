/**
 * Draws the cells of one group on a canvas. Redraws only changed cells. Arrow keys move the focus.
 */
import { useComputedColorScheme } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type MouseEvent, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { serverNowMs, useTicking } from '../../api/server-clock.ts';
import { requestFrame, useFleetFrame } from './animation-frame.ts';
import { type CellMark, CellSprites, cellSize } from './cell-sprites.ts';
import styles from './FleetGrid.module.css';
import type { CellGroup } from './fleet-view.ts';

export interface PreviewTarget {
  group: CellGroup;
  at: number;
  box: DOMRect;
}

interface Props {
  group: CellGroup;
  stuck: ReadonlyMap<string, string>;
  onPreview: (target: PreviewTarget | null) => void;
}

export function FleetCells({ group, stuck, onPreview }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [current, setCurrent] = useState(0);
  const scheme = useComputedColorScheme();
  const navigate = useNavigate();
  const size = cellSize(group.size);
  const perRow = Math.max(1, Math.floor(width / size.pitch));
  const rows = width === 0 ? 0 : Math.ceil(group.size / perRow);
  const ratio = window.devicePixelRatio || 1;

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);

  const markOf = (at: number, nowMs: number): CellMark => {
    const node = group.nodes[at];
    if (!node) return null;
    if (node.held) return 'held';
    if (stuck.has(node.node_id)) return 'stuck';
    return group.isOverdue(at, nowMs) ? 'overdue' : null;
  };

  const sprites = useRef<CellSprites | null>(null);
  const draw = () => {
    const pen = canvas.current?.getContext('2d');
    if (!pen || !sprites.current || perRow === 0) return;
    const dirty = group.takeDirty();
    const nowMs = serverNowMs();
    const drawCell = (at: number) => {
      const node = group.nodes[at];
      if (!node || !sprites.current) return;
      const sprite = sprites.current.spriteFor(node.status, markOf(at, nowMs));
      const [x, y] = [(at % perRow) * size.pitch, Math.floor(at / perRow) * size.pitch];
      pen.clearRect(x, y, size.pitch, size.pitch);
      pen.drawImage(sprite, x, y, size.pitch, size.pitch);
    };
    if (dirty === null) {
      pen.clearRect(0, 0, perRow * size.pitch, rows * size.pitch);
      for (let at = 0; at < group.size; at++) drawCell(at);
    } else for (const at of dirty) drawCell(at);
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: each of these changes all cells
  useLayoutEffect(() => {
    const [element, root] = [canvas.current, frame.current];
    if (!element || !root || width === 0) return;
    element.width = Math.ceil(perRow * size.pitch * ratio);
    element.height = Math.ceil(rows * size.pitch * ratio);
    element.getContext('2d')?.scale(ratio, ratio);
    sprites.current = new CellSprites(root, size, ratio);
    group.redrawAll();
    draw();
  }, [group, perRow, rows, size.pitch, ratio, scheme, stuck, width]);

  useFleetFrame(draw);
  const second = useTicking((nowMs) => Math.floor(nowMs / 1000));
  const lastSecond = useRef(second);
  useEffect(() => {
    group.passDeadlines(lastSecond.current * 1000, second * 1000);
    lastSecond.current = second;
    requestFrame();
  }, [group, second]);

  const hoveredCell = useRef<number | null>(null);
  const cellUnder = (event: MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const column = Math.floor((event.clientX - box.left) / size.pitch);
    const at = Math.floor((event.clientY - box.top) / size.pitch) * perRow + column;
    return column >= 0 && column < perRow && at >= 0 && at < group.size ? at : null;
  };
  const boxOf = (at: number): DOMRect | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const [x, y] = [(at % perRow) * size.pitch, Math.floor(at / perRow) * size.pitch];
    return new DOMRect(box.left + x, box.top + y, size.pitch, size.pitch);
  };
  const previewCell = (at: number) => {
    const box = boxOf(at);
    onPreview(box && { group, at, box });
  };
  const moveFocus = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow };
    const ends: Record<string, number> = { Home: 0, End: group.size - 1 };
    const step = steps[event.key];
    const at = ends[event.key] ?? (step === undefined ? undefined : focused + step);
    if (at === undefined || at < 0 || at >= group.size) return;
    event.preventDefault();
    setCurrent(at);
    previewCell(at);
  };

  const focused = Math.min(current, group.size - 1);
  const node = group.nodes[focused];
  const marks = [
    node?.held && 'held',
    node && stuck.has(node.node_id) && 'release failed',
    group.isOverdue(focused, second * 1000) && 'overdue',
  ];
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the link inside handles the keyboard
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link inside handles the keyboard
    <div
      ref={frame}
      className={styles.cells}
      data-cells={group.size}
      onMouseMove={(event) => {
        const at = cellUnder(event);
        if (at === hoveredCell.current) return;
        hoveredCell.current = at;
        if (at === null) return onPreview(null);
        setCurrent(at);
        previewCell(at);
      }}
      onMouseLeave={() => {
        hoveredCell.current = null;
        onPreview(null);
      }}
      onClick={(event) => {
        const at = cellUnder(event);
        const clickedNode = at === null ? undefined : group.nodes[at];
        // The link follows the pointer. If the pointer moves between press and release, the browser
        // reports no click on the link.
        if (clickedNode && !(event.target as Element).closest('a'))
          void navigate({ to: '/nodes/$id', params: { id: clickedNode.node_id } });
      }}
    >
      <canvas
        ref={canvas}
        className={styles.canvas}
        style={{ width: perRow * size.pitch, height: rows * size.pitch }}
        aria-hidden
      />
      {node && (
        <Link
          to="/nodes/$id"
          params={{ id: node.node_id }}
          preload={false}
          className={styles.cursor}
          style={{
            left: (focused % perRow) * size.pitch,
            top: Math.floor(focused / perRow) * size.pitch,
            width: size.pitch,
            height: size.pitch,
          }}
          data-node={node.node_id}
          data-status={node.status}
          aria-label={[node.name, node.status, ...marks].filter(Boolean).join(', ')}
          onKeyDown={moveFocus}
          onFocus={() => previewCell(focused)}
          onBlur={() => onPreview(null)}
        />
      )}
    </div>
  );
}
