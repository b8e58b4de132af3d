/** When memory is collected. */
import { setFlagsFromString } from 'node:v8';

/**
 * A process that rests is collected every now and then by itself, to give memory back. One that remembers a large fleet never rests, has nothing to give
 * back, and each such collection takes two seconds of a processor; it is still collected when it needs room.
 */
export const collectOnlyForRoom = (): void => setFlagsFromString('--no-memory-reducer');
