/** Starts what all test files of a run share. */
export default function setup(): void {}
