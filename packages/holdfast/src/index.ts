/** Opens a run by its URI. With it come the engine, its interfaces, errors and settings. */

export * from '@holdfast/core';
export * from '@holdfast/stores';
