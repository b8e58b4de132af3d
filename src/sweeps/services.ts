/** What sweeps are given to work with: all that operations have, and what it takes to start and take over operations. */
import type { Engine } from '../engine/engine.ts';
import type { OperationServices } from '../operations/services.ts';

export interface SweepServices extends OperationServices {
  engine: Engine;
  host: string;
  isProcessAlive(pid: number): boolean;
  /** Another replica took over from this one; it executes nothing more and must end. */
  onDeclaredDead(error: Error): void;
}
