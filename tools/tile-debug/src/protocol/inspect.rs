//! Answers requests about a stopped kernel: frames, scopes, variables and their elements, expressions and sources. Also sets
//! breakpoints and watches.

use super::wire::Request;
use super::{Editor, ExpandableObject};
use crate::expression::{self, Datum, elements_as_f64};
use crate::scene::{Scene, StopReason};
use crate::session_settings::Control;
use crate::values;
use serde_json::{Value, json};

/// Maximum number of children in one response, and the default if the request has no count.
const MAX_CHILDREN: usize = 256;

impl Editor<'_> {
    /// Answers a request that only a stopped kernel can answer.
    pub(super) fn answer_stopped_query(&mut self, command: &str, request: &Request, scene: &Scene<'_>) -> Result<Value, String> {
        match command {
            "stackTrace" => Ok(self.stack_trace(request, scene)),
            "scopes" => Ok(json!({"scopes": [
                {"name": "Variables", "presentationHint": "locals", "variablesReference": self.add_expandable(ExpandableObject::Variables), "expensive": false},
                {"name": "Values", "presentationHint": "registers", "variablesReference": self.add_expandable(ExpandableObject::Values), "expensive": false},
                {"name": "Memory", "variablesReference": self.add_expandable(ExpandableObject::Memory), "expensive": true},
            ]})),
            "variables" => self.variables(request, scene),
            "evaluate" => {
                let text = request.arguments["expression"].as_str().unwrap_or_default();
                let datum = expression::evaluate(text, scene)?;
                let value_text = values::describe(&datum, scene)?;
                let mut response = self.variable_json("", datum, scene);
                response["result"] = json!(value_text);
                Ok(response)
            }
            "dataBreakpointInfo" => self.data_breakpoint_info(request, scene),
            "exceptionInfo" => {
                let id = match &scene.stop.reason {
                    StopReason::Fault(keyword, _) => keyword,
                    StopReason::Difference(_) => "difference",
                    _ => "failure",
                };
                Ok(json!({"exceptionId": id, "description": scene.stop.reason.describe(), "breakMode": "always"}))
            }
            _ => Err(format!("'{command}' is not supported")),
        }
    }

    /// Stores an object that the editor may expand later, and returns its `variablesReference`.
    fn add_expandable(&mut self, object: ExpandableObject) -> usize {
        self.expandable_objects.push(object);
        self.expandable_objects.len()
    }

    /// Returns the response to `stackTrace`: the visible frames that the request selects, innermost first.
    fn stack_trace(&mut self, request: &Request, scene: &Scene<'_>) -> Value {
        let op = self.debuggee.listing.op_text(scene.stop.row);
        let frames: Vec<Value> = match scene.frames() {
            [] => vec![json!({"id": 1, "name": op, "line": 0, "column": 0})],
            frames => {
                let frame = |(depth, frame): (usize, &crate::call_stack::Frame)| json!({"id": depth + 1, "name": frame.function, "line": frame.line, "column": frame.column.max(1), "source": self.source_json(frame.file)});
                frames.iter().rev().enumerate().map(frame).collect()
            }
        };
        let total = frames.len();
        let start = request.arguments["startFrame"].as_u64().unwrap_or(0) as usize;
        let levels = request.arguments["levels"].as_u64().filter(|levels| *levels > 0).unwrap_or(u64::MAX) as usize;
        let requested_frames: Vec<Value> = frames.into_iter().skip(start).take(levels).collect();
        json!({"stackFrames": requested_frames, "totalFrames": total})
    }

    /// Returns the protocol's source object of a file. The object has a path if the file exists. Otherwise it has a reference with
    /// which the editor requests the text.
    fn source_json(&self, file: usize) -> Value {
        let source_file = &self.debuggee.files[file];
        match &source_file.path_and_lines {
            Some((path, _)) if path.is_file() => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                json!({"name": self.debuggee.file_name(file), "path": path})
            }
            _ => json!({"name": self.debuggee.file_name(file), "sourceReference": file + 1}),
        }
    }

    /// Returns the text of a source file.
    pub(super) fn source(&self, request: &Request) -> Result<Value, String> {
        let number = request.arguments["source"]["sourceReference"].as_u64().or(request.arguments["sourceReference"].as_u64());
        let file = number.and_then(|number| self.debuggee.files.get((number as usize).checked_sub(1)?));
        match file.map(|file| (&file.name, &file.path_and_lines)) {
            Some((_, Some((_, lines)))) => Ok(json!({"content": lines.join("\n")})),
            Some((name, None)) => Err(format!("{name} was not found; set 'source' in the launch request")),
            None => Err("there is no such source".into()),
        }
    }

    /// Returns the children of an expandable object: variables, values, buffers, or the elements of a tile or array.
    fn variables(&mut self, request: &Request, scene: &Scene<'_>) -> Result<Value, String> {
        let number = request.arguments["variablesReference"].as_u64().unwrap_or(0) as usize;
        let object = number.checked_sub(1).and_then(|index| self.expandable_objects.get(index));
        let named_values: Vec<(String, Datum)> = match object.ok_or("the handle belongs to an earlier stop")? {
            ExpandableObject::Variables => {
                let variables = scene.variables().into_iter();
                variables.filter_map(|(name, id)| Some((name, expression::datum_from_value(scene.value(id).ok()?)))).collect()
            }
            ExpandableObject::Values => {
                let values = scene.visible_values().into_iter();
                values.filter_map(|id| Some((id.to_string(), expression::datum_from_value(scene.value(id).ok()?)))).collect()
            }
            ExpandableObject::Memory => {
                self.debuggee.arrays.iter().map(|array| (array.name.clone(), Datum::Array(array.clone()))).collect()
            }
            ExpandableObject::Elements(datum) => {
                let (filter, datum) = (request.arguments["filter"].as_str().unwrap_or(""), datum.clone());
                let start = request.arguments["start"].as_u64().unwrap_or(0) as usize;
                let count =
                    request.arguments["count"].as_u64().filter(|count| *count > 0).map_or(MAX_CHILDREN, |count| count as usize);
                let mut children = Vec::new();
                if filter != "indexed"
                    && let Datum::Tile(tile) = &datum
                {
                    let report = values::statistics(&elements_as_f64(tile));
                    children.push(json!({"name": "statistics", "value": report, "variablesReference": 0}));
                }
                if filter != "named" {
                    let indices = (start..expression::first_extent(&datum).unwrap_or(0)).take(count.min(MAX_CHILDREN));
                    for index in indices {
                        let part = expression::element_or_slice_at(&datum, index as i64)?;
                        children.push(self.variable_json(&format!("[{index}]"), part, scene));
                    }
                }
                return Ok(json!({"variables": children}));
            }
        };
        let variables: Vec<Value> = named_values.into_iter().map(|(name, datum)| self.variable_json(&name, datum, scene)).collect();
        Ok(json!({"variables": variables}))
    }

    /// Returns the protocol's variable object of a value. An editor can expand a variable that has elements.
    fn variable_json(&mut self, name: &str, datum: Datum, scene: &Scene<'_>) -> Value {
        let (ty, shown) = match &datum {
            Datum::Tile(tile) => values::type_and_elements(tile, scene),
            Datum::Array(array) if array.sizes.is_empty() => match expression::read_array(array, scene) {
                Ok(tile) => values::type_and_elements(&tile, scene),
                Err(error) => (array.elem.name().to_string(), error),
            },
            Datum::Array(array) => (values::array_type(array), values::array_type(array)),
            Datum::Other(value) => ("view".to_string(), values::format_value(value, scene)),
            Datum::Numbers(numbers) => ("number".to_string(), numbers.first().map_or(String::new(), f64::to_string)),
        };
        let mut variable = json!({"name": name, "value": shown, "type": ty, "variablesReference": 0});
        if let Some(extent) = expression::first_extent(&datum) {
            if matches!(datum, Datum::Tile(_)) {
                variable["namedVariables"] = json!(1);
            }
            variable["indexedVariables"] = json!(extent);
            variable["variablesReference"] = json!(self.add_expandable(ExpandableObject::Elements(datum)));
        }
        variable
    }

    /// Sets the line breakpoints of a file. They replace the file's breakpoints of the previous request.
    pub(super) fn set_breakpoints(&mut self, request: &Request, control: &mut Control) -> Result<Value, String> {
        let source = &request.arguments["source"];
        let file = source["path"].as_str().or(source["name"].as_str()).unwrap_or_default();
        let file_numbers = self.debuggee.files.iter().enumerate().map(|(number, _)| number);
        let file_names: Vec<String> = file_numbers
            .filter(|number| self.debuggee.file_matches(*number, file))
            .map(|number| self.debuggee.files[number].name.clone())
            .collect();
        control.breakpoints.retain(|breakpoint| breakpoint.function.is_some() || !file_names.contains(&breakpoint.file));
        let mut breakpoints = Vec::new();
        for requested in request.arguments["breakpoints"].as_array().into_iter().flatten() {
            let line = requested["line"].as_u64().unwrap_or(0) as u32;
            let Some((number, line)) = self.debuggee.line_with_code(file, line) else {
                breakpoints.push(json!({"verified": false, "line": line, "message": "no op comes from this line or one after it"}));
                continue;
            };
            breakpoints.push(self.add_requested_breakpoint(requested, number, line, None, control));
        }
        Ok(json!({"breakpoints": breakpoints}))
    }

    /// Adds a breakpoint on a line with the conditions of the request, and returns the protocol's breakpoint object.
    fn add_requested_breakpoint(
        &self,
        requested: &Value,
        file: usize,
        line: u32,
        function: Option<&str>,
        control: &mut Control,
    ) -> Value {
        let text = |name: &str| requested[name].as_str().filter(|text| !text.is_empty()).map(str::to_string);
        let first_hit = text("hitCondition").map_or(Ok(1), |first_hit| first_hit.trim_start_matches(['>', '=', ' ']).parse());
        let breakpoint = control.add_breakpoint(&self.debuggee.files[file].name, line);
        breakpoint.function = function.map(str::to_string);
        (breakpoint.condition, breakpoint.message) = (text("condition"), text("logMessage"));
        let mut response = json!({"id": breakpoint.id, "verified": true, "line": line});
        match first_hit {
            Ok(first_hit) => breakpoint.first_hit = first_hit,
            Err(_) => response["message"] = json!("a hit condition is a number: from which time on to stop"),
        }
        response
    }

    /// Sets breakpoints at the first lines of functions. They replace the function breakpoints of the previous request.
    pub(super) fn set_function_breakpoints(&mut self, request: &Request, control: &mut Control) -> Result<Value, String> {
        control.breakpoints.retain(|breakpoint| breakpoint.function.is_none());
        let mut breakpoints = Vec::new();
        for requested in request.arguments["breakpoints"].as_array().into_iter().flatten() {
            let name = requested["name"].as_str().unwrap_or_default();
            breakpoints.push(match self.debuggee.line_of_function(name) {
                Some((file, line)) => self.add_requested_breakpoint(requested, file, line, Some(name), control),
                None => json!({"verified": false, "message": format!("no op comes from a function '{name}'")}),
            });
        }
        Ok(json!({"breakpoints": breakpoints}))
    }

    /// Reports whether an editor can watch a variable or an expression. The data identifier of the breakpoint is the expression.
    fn data_breakpoint_info(&self, request: &Request, scene: &Scene<'_>) -> Result<Value, String> {
        let name = request.arguments["name"].as_str().unwrap_or_default();
        let container = request.arguments["variablesReference"].as_u64().unwrap_or(0) as usize;
        let container_object = container.checked_sub(1).and_then(|index| self.expandable_objects.get(index));
        if matches!(container_object, Some(ExpandableObject::Elements(_))) {
            let description = "watch the element as an expression, such as x[3, 0]";
            return Ok(json!({"dataId": null, "description": description}));
        }
        Ok(match expression::evaluate(name, scene) {
            Ok(_) => json!({"dataId": name, "description": name, "accessTypes": ["write"], "canPersist": true}),
            Err(error) => json!({"dataId": null, "description": error}),
        })
    }

    /// Sets the watches. They replace the watches of the previous request. An expression that was already watched keeps its last
    /// values.
    pub(super) fn set_data_breakpoints(
        &mut self,
        request: &Request,
        control: &mut Control,
        scene: Option<&Scene<'_>>,
    ) -> Result<Value, String> {
        let requested = request.arguments["breakpoints"].as_array().into_iter().flatten().map(|requested| {
            let text = requested["dataId"].as_str().unwrap_or_default();
            let current_value = scene.and_then(|scene| {
                let value = expression::evaluate(text, scene).and_then(|datum| values::describe(&datum, scene)).ok()?;
                Some(((scene.moment.block_position().linear, scene.moment.warp_role()), value))
            });
            (text.to_string(), current_value)
        });
        let ids = control.replace_watches(requested.collect());
        let breakpoints: Vec<Value> = ids.into_iter().map(|id| json!({"id": id, "verified": true})).collect();
        Ok(json!({"breakpoints": breakpoints}))
    }

    /// Lists the lines of a range on which a breakpoint can stop.
    pub(super) fn breakpoint_locations(&self, request: &Request) -> Result<Value, String> {
        let source = &request.arguments["source"];
        let file = source["path"].as_str().or(source["name"].as_str()).unwrap_or_default();
        let first_line = request.arguments["line"].as_u64().unwrap_or(0) as u32;
        let last_line = request.arguments["endLine"].as_u64().map_or(first_line, |line| line as u32);
        let mut lines = Vec::new();
        let mut next_line = first_line;
        while let Some((_, line)) = self.debuggee.line_with_code(file, next_line).filter(|(_, line)| *line <= last_line) {
            lines.push(json!({"line": line}));
            next_line = line + 1;
        }
        Ok(json!({"breakpoints": lines}))
    }
}
